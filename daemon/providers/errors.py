"""Classes of a server's errors (A7), whatever its wire format."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from daemon.core import value
from daemon.core.errors import AidaemonError, ErrorClass, ProviderError

MAX_DETAIL = 300


def _map_codes(**codes: str) -> dict[str, ErrorClass]:
    return {code: ErrorClass[name] for name, listed in codes.items() for code in listed.split()}


SPECIFIC_CODES = _map_codes(
    CONTEXT_TOO_LONG="context_length_exceeded exceed_context_size_error context_window_exceeded "
    "request_too_large",
    BILLING="insufficient_quota insufficient_balance insufficient_credits billing_not_active "
    "billing_hard_limit_reached exceeded_current_quota_error payment_required billing_error "
    "contract_spend_limit_reached enforced_spend_limit_reached billing_disabled "
    "linked_organization_spend_limit_reached linked_organization_billing_unavailable",
    AUTH="invalid_api_key authentication_error invalid_authentication_error permission_error "
    "api_key_invalid unauthenticated unauthorized",
    OVERLOADED="overloaded_error engine_overloaded_error",
    NOT_FOUND="model_not_found",
    RATE_LIMIT="rate_limit_exceeded rate_limit_error",
)
GENERAL_CODES = _map_codes(
    BAD_REQUEST="invalid_request_error invalid_argument",
    NOT_FOUND="not_found_error",
    TIMEOUT="timeout timeout_error deadline_exceeded",
    SERVER="server_error internal_error internal_server_error api_error",
    RATE_LIMIT="resource_exhausted",
    OVERLOADED="unavailable",
)
CLASS_BY_STATUS = {
    401: ErrorClass.AUTH,
    402: ErrorClass.BILLING,
    403: ErrorClass.AUTH,
    404: ErrorClass.NOT_FOUND,
    408: ErrorClass.TIMEOUT,
    413: ErrorClass.CONTEXT_TOO_LONG,
    429: ErrorClass.RATE_LIMIT,
    529: ErrorClass.OVERLOADED,
}
UNAMBIGUOUS_STATUS = (401, 402, 413, 529)
TOO_LONG = re.compile(
    r"context (length|window|size)|maximum context|prompt is too long|input is too long"
    r"|reduce the length|too many (input )?tokens|input token count"
    r"|exceeds? (the (available|maximum) (context|number of tokens)|context limit)",
    re.IGNORECASE,
)
NO_CREDIT = re.compile(
    r"billing|credit balance|insufficient (balance|credits?|funds)|out of credits?|payment"
    r"|API usage limits",
    re.IGNORECASE,
)
NO_MODEL = re.compile(
    r"model\b.{0,80}\b(not found|does not exist|not exist|unknown|not available)|unknown model",
    re.IGNORECASE,
)
BUSY = re.compile(
    r"overloaded|at capacity|over capacity|no capacity|server is busy|high demand", re.IGNORECASE
)

DECIMAL = re.compile(r"\d+(\.\d+)?")

PHRASES = {
    ErrorClass.AUTH: "does not accept the API key",
    ErrorClass.BILLING: "says that the account has no credit",
    ErrorClass.RATE_LIMIT: "asks us to slow down",
    ErrorClass.OVERLOADED: "is overloaded",
    ErrorClass.TIMEOUT: "did not answer in time",
    ErrorClass.NETWORK: "has a connection problem",
    ErrorClass.SERVER: "has an internal error",
    ErrorClass.MALFORMED: "sent an answer that cannot be used",
    ErrorClass.NOT_FOUND: "does not know this model or this address",
    ErrorClass.CONTEXT_TOO_LONG: "says that the conversation is too long for the model",
    ErrorClass.BAD_REQUEST: "does not accept the request",
    ErrorClass.UNKNOWN: "gave an answer that nobody expected",
}


class CallFailed(AidaemonError):
    """A model call went wrong."""

    def __init__(
        self,
        kind: ErrorClass,
        detail: str = "",
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.status = status
        self.retry_after = retry_after

    def to_provider_error(self, host: str, secrets: Sequence[str]) -> ProviderError:
        """One printable line for a person, without a secret that the server has echoed."""
        detail = self.detail
        for secret in filter(None, secrets):
            detail = detail.replace(secret, "***")
        detail = " ".join("".join(c if c.isprintable() else " " for c in detail).split())
        detail = detail if len(detail) <= MAX_DETAIL else detail[:MAX_DETAIL] + "…"
        where = f"{host} ({self.status})" if self.status else host
        message = f"{where} {PHRASES[self.kind]}" + (f": {detail}" if detail else "")
        return ProviderError(self.kind, message, retry_after=self.retry_after, status=self.status)


@value
class ErrorBody:
    """An error as the server wrote it: words for people, codes and types for programs, perhaps a
    status.
    """

    message: str = ""
    codes: tuple[str, ...] = ()
    status: int | None = None
    wait: float | None = None


def make_response_error(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime
) -> CallFailed:
    """The fault behind an HTTP status that is no success."""
    error = parse_error_body(body)
    wait = parse_retry_after(headers, now)
    wait = error.wait if wait is None else wait
    return CallFailed(
        classify_error(status, error, wait), error.message, status=status, retry_after=wait
    )


def make_object_error(error: object) -> CallFailed:
    """The fault behind an error object inside an answer that had begun as a success."""
    return _make_classified_error(_parse_error_object(error))


def make_event_error(data: bytes) -> CallFailed:
    """The fault behind an event named "error" in a stream."""
    return _make_classified_error(parse_error_body(data))


def _make_classified_error(body: ErrorBody) -> CallFailed:
    return CallFailed(
        classify_error(body.status, body, body.wait),
        body.message,
        status=body.status,
        retry_after=body.wait,
    )


def classify_error(status: int | None, error: ErrorBody, wait: float | None) -> ErrorClass:
    """The class. Codes say more than the status, except where the status has one meaning only."""
    if status in UNAMBIGUOUS_STATUS:
        return CLASS_BY_STATUS[status]
    for code in error.codes:
        if code in SPECIFIC_CODES:
            return SPECIFIC_CODES[code]
    by_words = _classify_text(status, error.message, wait)
    if by_words:
        return by_words
    if status is not None:
        return CLASS_BY_STATUS.get(status) or _classify_status_range(status)
    return next(
        (GENERAL_CODES[code] for code in error.codes if code in GENERAL_CODES), ErrorClass.SERVER
    )


def _classify_text(status: int | None, words: str, wait: float | None) -> ErrorClass | None:
    client = status is None or status in (400, 422)
    if client and TOO_LONG.search(words):
        return ErrorClass.CONTEXT_TOO_LONG
    if client and NO_MODEL.search(words):
        return ErrorClass.NOT_FOUND
    # A 429 with a time to come back is a rate limit, even if it mentions billing, as Google's.
    if status in (400, 403, 429) and wait is None and NO_CREDIT.search(words):
        return ErrorClass.BILLING
    if (status is None or status >= 500) and BUSY.search(words):
        return ErrorClass.OVERLOADED
    return None


def _classify_status_range(status: int) -> ErrorClass:
    if 300 <= status < 500:
        return ErrorClass.BAD_REQUEST
    return ErrorClass.SERVER if 500 <= status < 600 else ErrorClass.UNKNOWN


def parse_error_body(body: bytes) -> ErrorBody:
    """An error body: {"error": {...}}, {"error": "words"}, {"message"}, {"detail"}, a list of one,
    or no JSON at all.
    """
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
        return ErrorBody(
            re.sub(
                r"<(style|script).*?</\1>|<[^>]*>",
                " ",
                text[:20_000],
                flags=re.DOTALL | re.IGNORECASE,
            )
        )
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, dict) and found.get("error"):
        found = found["error"]
    return _parse_error_object(found)


def _parse_error_object(error: object) -> ErrorBody:
    if not isinstance(error, dict):
        return ErrorBody(error if isinstance(error, str) else json.dumps(error))
    words = error.get("message") or error.get("detail") or error.get("error") or ""
    details = error.get("details")
    named = [details.get("error_code")] if isinstance(details, dict) else []
    named += [error.get(key) for key in ("code", "type", "status")]
    codes = tuple(name.lower() for name in named if isinstance(name, str))
    status = next(filter(None, map(_parse_status, named)), None)
    reasons, wait = _parse_details(error.get("details"))
    return ErrorBody(
        words if isinstance(words, str) else json.dumps(words), reasons + codes, status, wait
    )


def _parse_details(details: object) -> tuple[tuple[str, ...], float | None]:
    """Where Google says more: reasons for programs, and how long to wait ("37s")."""
    listed = (
        [detail for detail in details if isinstance(detail, dict)]
        if isinstance(details, list)
        else []
    )
    reasons = tuple(
        reason.lower() for detail in listed if isinstance(reason := detail.get("reason"), str)
    )
    delays = [
        delay.removesuffix("s")
        for detail in listed
        if isinstance(delay := detail.get("retryDelay"), str)
    ]
    return reasons, next(
        (_check_delay(float(delay)) for delay in delays if DECIMAL.fullmatch(delay)), None
    )


def _parse_status(value: object) -> int | None:
    text = str(value)
    return int(text) if len(text) == 3 and text.isdecimal() and 300 <= int(text) < 600 else None


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait: `retry-after-ms`, or `Retry-After` as seconds or as an HTTP date; None for
    nonsense.
    """
    try:
        if "retry-after-ms" in headers:
            return _check_delay(float(headers["retry-after-ms"]) / 1000)
        text = headers.get("Retry-After", "").strip()
        if not text or text[0] in "+-.0123456789":
            return _check_delay(float(text)) if text else None
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())


def _check_delay(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
