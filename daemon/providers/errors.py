"""Classes of a server's errors (A7), whatever its wire format."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from daemon.core.errors import ErrorClass, ProviderError

MAX_DETAIL = 300


def _map_codes(**codes: str) -> dict[str, ErrorClass]:
    return {code: ErrorClass[name] for name, listed in codes.items() for code in listed.split()}


# Numbers: Zhipu's, and those of MiniMax, which stand in a table `base_resp`.
SPECIFIC_CODES = _map_codes(
    CONTEXT_TOO_LONG="context_length_exceeded exceed_context_size_error context_window_exceeded "
    "request_too_large 1261 base_resp_1039",
    BILLING="insufficient_quota insufficient_balance insufficient_credits billing_not_active "
    "billing_hard_limit_reached exceeded_current_quota_error payment_required billing_error "
    "contract_spend_limit_reached enforced_spend_limit_reached billing_disabled "
    "linked_organization_spend_limit_reached linked_organization_billing_unavailable arrearage "
    "1113 base_resp_1008",
    AUTH="invalid_api_key authentication_error invalid_authentication_error permission_error "
    "api_key_invalid unauthenticated unauthorized base_resp_1004 base_resp_2049",
    OVERLOADED="overloaded_error engine_overloaded_error unavailable_error",
    NOT_FOUND="model_not_found model_not_supported model_decommissioned 1211",
    RATE_LIMIT="rate_limit_exceeded rate_limit_error 1302 1305 base_resp_1002",
    FILTERED="content_filter content_policy_violation moderation_blocked data_inspection_failed "
    "responsibleaipolicyviolation 1301 base_resp_1026 base_resp_1027",
)
GENERAL_CODES = _map_codes(
    BAD_REQUEST="invalid_request_error invalid_argument base_resp_2013",
    NOT_FOUND="not_found_error",
    TIMEOUT="timeout timeout_error deadline_exceeded base_resp_1001",
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
CLASS_BY_HUNDRED = {
    3: ErrorClass.BAD_REQUEST,
    4: ErrorClass.BAD_REQUEST,
    5: ErrorClass.SERVER,
}
UNAMBIGUOUS_STATUS = (401, 402, 413, 529)
MARKUP = re.compile(r"<(style|script).*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
TOO_LONG = re.compile(
    r"context (length|window|size)|maximum context|prompt is too long|input is too long"
    r"|reduce the length|too many (input )?tokens|input token count"
    r"|exceeds? (the (available|maximum) (context|number of tokens)|context limit)"
    r"|max_(seq|model|context)_len"
    # in the words of whatever server: of what is sent, its measure, and a limit
    r"|\A(?!.*\b(tool|function|schema|name)s?\b)(?=.*\b(prompt|input|context|message|request|text))(?=.*\b(token|length|long\b))"
    r"(?=.*(\b(exceed|too (long|large|many)|(\w+er|less) than|max|limit|range)|<=))",
    re.IGNORECASE | re.DOTALL,
)
NO_CREDIT = re.compile(
    r"billing|(credit|account) balance|insufficient (balance|credits?|funds)|out of credits?"
    r"|payment|API usage limits",
    re.IGNORECASE,
)
NO_KEY = re.compile(
    r"api.?key (is )?(not valid|invalid|incorrect)|(incorrect|invalid|wrong) api.?key",
    re.IGNORECASE,
)
NO_MODEL = re.compile(
    r"model\b[^.;:]{0,80}\b(not found|does not exist|not exist|not available|is unknown)"
    r"|(unknown|valid|invalid) model\b|decommissioned",
    re.IGNORECASE,
)
# What a refusal quotes, and names in it, such as those of tools: they say nothing of its kind.
QUOTED = re.compile(
    r"'[^']{0,200}'|\"[^\"]{0,200}\"|`[^`]{0,200}`|(?<!\w)(?!max_\w+_len\b)\S*[_\[\]]\S*"
)
# Where servers write what they say; inside of what they pass on another server's error.
WORD_KEYS = (
    "message",
    "detail",
    "msg",
    "error_msg",
    "status_msg",
    "error_description",
    "error",
    "raw",
)
INNER_KEYS = ("error", "errors", "base_resp", "metadata", "raw", "message")
MAX_DEPTH = 4

BUSY = re.compile(
    r"overloaded|at capacity|over capacity|no capacity|server is busy|high demand", re.IGNORECASE
)
FILTER = re.compile(
    r"content.?(filter|polic|management)|moderation|safety (system|polic|check)|usage polic"
    r"|inappropriate content|content exists risk|data.?inspection|prohibited content",
    re.IGNORECASE,
)
# A local server whose template cannot render this history or these tools calls that its own fault.
TEMPLATE = re.compile(
    r"jinja|\btemplate\b|raise_exception|while executing \w+|roles must alternate", re.IGNORECASE
)
# The class that words mean, and the statuses they mean it at; None: an error without one.
WORDS = (
    (TOO_LONG, ErrorClass.CONTEXT_TOO_LONG, (None, 400, 422, 500)),
    (NO_KEY, ErrorClass.AUTH, (None, 400)),
    (NO_MODEL, ErrorClass.NOT_FOUND, (None, 400, 422)),
    (NO_CREDIT, ErrorClass.BILLING, (400, 403, 429)),
    (FILTER, ErrorClass.FILTERED, (None, 400, 403, 422)),
    (TEMPLATE, ErrorClass.BAD_REQUEST, (None, 500)),
    (BUSY, ErrorClass.OVERLOADED, (None, *range(500, 1000))),
)
STATUS = re.compile(r"[345]\d{2}")
DELAY = re.compile(r"(\d{1,9}(?:\.\d+)?)s?")

# By class of error.
PHRASES = {
    "auth": "does not accept the API key",
    "billing": "says that the account has no credit",
    "rate_limit": "asks us to slow down",
    "overloaded": "is overloaded",
    "timeout": "did not answer in time",
    "network": "has a connection problem",
    "server": "has an internal error",
    "malformed": "sent an answer that cannot be used",
    "not_found": "does not know this model or this address",
    "context_too_long": "says that the conversation is too long for the model",
    "bad_request": "does not accept the request",
    "filtered": "has a filter that stops this",
    "unknown": "gave an answer that nobody expected",
}


class CallFailed(ProviderError):
    """A model call went wrong, in the server's own words."""

    def to_provider_error(self, host: str, secrets: Sequence[str]) -> ProviderError:
        """One printable line for a person, without a secret that the server has echoed."""
        detail = str(self)
        for secret in filter(None, secrets):
            detail = detail.replace(secret, "***")
        detail = " ".join("".join(c if c.isprintable() else " " for c in detail).split())
        detail = detail if len(detail) <= MAX_DETAIL else detail[:MAX_DETAIL] + "…"
        where = f"{host} ({self.status})" if self.status else host
        message = f"{where} {PHRASES[self.kind]}" + (f": {detail}" if detail else "")
        return ProviderError(
            self.kind,
            message,
            retry_after=self.retry_after,
            status=self.status,
            parameters=self.parameters,
        )


def make_error(
    body: bytes, status: int | None = None, retry_after: float | None = None
) -> CallFailed:
    """The error in a body: {"error": {...}}, {"error": "words"}, {"message"}, {"detail"}, a list
    of one, or no JSON at all.
    """
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        found = MARKUP.sub(" ", body.decode("utf-8", "replace")[:20_000])
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, dict) and found.get("error") and not isinstance(found["error"], str):
        found = found["error"]
    return make_object_error(found, status, retry_after)


def make_object_error(
    error: object, status: int | None = None, retry_after: float | None = None
) -> CallFailed:
    """The error that an object means: words for people, codes and types for programs, perhaps a
    status; Google adds reasons, and how long to wait ("37s").
    """
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else json.dumps(error)}
    tables = list(_list_tables(error))
    told = list(dict.fromkeys(filter(None, map(_find_words, tables))))
    words = ": ".join(one for n, one in enumerate(told) if not any(one in o for o in told[:n]))
    if isinstance(param := error.get("param"), str) and param not in words:
        words = f"{words} ({param})"
    details = error.get("details")
    entries = details if isinstance(details, list) else [details]
    listed = [detail for detail in entries if isinstance(detail, dict)]
    named = [detail.get(key) for key in ("reason", "error_code") for detail in listed]
    for table in tables:
        named += [table.get(key) for key in ("code", "type", "status", "error_code", "error")]
        named.append(f"base_resp_{table['status_code']}" if "status_code" in table else None)
    if status is None:
        status = next((int(str(name)) for name in named if STATUS.fullmatch(str(name))), None)
    if retry_after is None:
        delays = [DELAY.fullmatch(str(detail.get("retryDelay"))) for detail in listed]
        retry_after = next((float(delay[1]) for delay in delays if delay), None)
    codes = [str(name).lower() for name in named if isinstance(name, str | int)]
    kind = _classify(status, codes, words, retry_after)
    # A space, as an empty message would be replaced.
    return CallFailed(kind, words or " ", status=status, retry_after=retry_after)


def _list_tables(found: object, depth: int = 0) -> Iterator[Mapping[str, object]]:
    """An error, and the errors in it: of the server behind it, perhaps as a text."""
    found = _parse_text(found) if isinstance(found, str) else found
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, dict) and depth < MAX_DEPTH:
        yield found
        for key in INNER_KEYS:
            yield from _list_tables(found.get(key), depth + 1)


def _parse_text(text: str) -> object:
    """What a text holds that is JSON's; None for words."""
    try:
        return json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _find_words(table: Mapping[str, object]) -> str:
    """What it says to people, and not what is a table of its own."""
    for key in WORD_KEYS:
        found = table.get(key)
        if isinstance(found, str) and found and _parse_text(found) is None:
            return found
        if found and key not in INNER_KEYS:
            return json.dumps(found)
    return ""


def _classify(
    status: int | None, codes: Sequence[str], words: str, retry_after: float | None
) -> ErrorClass:
    """The class. Codes say more than the status, except where the status has one meaning only."""
    if status in UNAMBIGUOUS_STATUS:
        return CLASS_BY_STATUS[status]
    for code in codes:
        if code in SPECIFIC_CODES:
            return SPECIFIC_CODES[code]
    for pattern, kind, statuses in WORDS:
        # A 429 with a time to come back is a rate limit, even if it mentions billing, as Google's.
        is_limit = kind is ErrorClass.BILLING and retry_after is not None
        said = QUOTED.sub(" ", words) if status in (400, 422, 500) else words
        if status in statuses and not is_limit and pattern.search(said):
            return kind
    if status is not None:
        usual = CLASS_BY_HUNDRED.get(status // 100, ErrorClass.UNKNOWN)
        return CLASS_BY_STATUS.get(status, usual)
    known = (GENERAL_CODES[code] for code in codes if code in GENERAL_CODES)
    return next(known, ErrorClass.SERVER)


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait: `retry-after-ms`, or `Retry-After` as seconds or as an HTTP date; None for
    nonsense.
    """
    text = headers.get("Retry-After", "").strip()
    try:
        if "retry-after-ms" in headers:
            seconds = float(headers["retry-after-ms"]) / 1000
        elif text[:1] in "+-.0123456789":
            seconds = float(text)
        else:
            date = parsedate_to_datetime(text)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            seconds = max(0.0, (date - now).total_seconds())
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None
