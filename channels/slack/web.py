"""Calls of Slack's web API: one try each; every failure is a ChannelError (K13)."""

import asyncio
import logging
from typing import Any

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from yarl import URL

from channels.base import ChannelError, Rejected, RetryLater, Revoked, Unsupported
from channels.json_access import Json, find_objects, find_text, get_text
from channels.slack.config import SlackAccount, SlackTiming
from channels.transport import HttpAnswer, OptionalCalls, PlatformClient, lost_answer, parse_seconds

REVOKED_CODES = (
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "not_allowed_token_type",
    "app_uninstalled",
)
HALF_DONE = ("fatal_error", "internal_error")
"""Slack says of these that some of it may have happened."""
NOTHING_DONE = (
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
    "ekm_access_denied",
)
RATE_LIMITED = ("ratelimited", "rate_limited", "message_limit_exceeded")
UNAVAILABLE = (
    "unknown_method",
    "method_deprecated",
    "missing_scope",
    "not_allowed",
    "feature_not_enabled",
    "http_400",
    "http_404",
)
"""The workspace does not offer this method to us: there is no use in asking again."""
HINTS = {
    "not_in_channel": "invite the bot there: /invite @name",
    "channel_not_found": "the chat is gone, or the bot was never in it",
    "is_archived": "the channel is archived",
    "msg_too_long": "the text is longer than Slack takes",
    "restricted_action": "an administrator of the workspace does not let the bot write there",
    "cannot_dm_bot": "bots do not talk to each other",
    "invalid_blocks": "Slack does not take the buttons",
}
DEFAULT_WAIT_S, PAGE_SIZE = 5.0, 200
log = logging.getLogger(__name__)
CHECK_TOKENS = (
    "check app_token and bot_token in [slack], and that the app is still installed in the workspace"
)


class SlackError(Rejected):
    """`code`: Slack's word for it ("not_in_channel"), or the HTTP status ("http_404")."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class SlackUnsupported(SlackError, Unsupported):
    """This workspace does not offer the method to us at all."""


class _Client(AsyncWebClient):
    """Without redirects: after one, a POST would be repeated as a GET."""

    async def _request(self, *, http_verb: str, api_url: str, req_args: dict[str, Any]) -> Json:
        req_args["allow_redirects"] = False
        return await super()._request(http_verb=http_verb, api_url=api_url, req_args=req_args)


class SlackWeb:
    """The web API of one workspace."""

    def __init__(self, config: SlackAccount, timing: SlackTiming) -> None:
        is_slack = f".{URL(config.base_url).host}".endswith(".slack.com")
        hosts = (".slack.com",) if is_slack else ()
        self.http = PlatformClient("Slack", config.base_url, hosts)
        self.config, self.timing = config, timing
        self.headers = {"Authorization": f"Bearer {config.bot_token}"}
        # it writes a log of its own, and would repeat what may have had its effect
        silent = logging.Logger("slack_sdk", logging.CRITICAL + 1)
        self._client = _Client(base_url=config.base_url, retry_handlers=[], logger=silent)
        # else it takes any from the environment, and knows no exceptions
        self._client.proxy = self.http.proxy
        self.optional = OptionalCalls("Slack")
        self.user = self.bot = self.team = ""

    async def write(self, method: str, **arguments: object) -> Json:
        """Change something. Raises SlackError, RetryLater, DeliveryUnknown, Revoked."""
        return await self._call("POST", method, arguments, sends=True)

    async def read(self, method: str, **arguments: object) -> Json:
        """Ask for something. Raises SlackError, RetryLater, Revoked."""
        return await self._call("GET", method, arguments)

    async def read_all(
        self, feature: str, method: str, key: str, pages: int, enough: int = 0, **asked: object
    ) -> list[Json]:
        """The rows at `key`, of so many pages; `enough`: no more rows than that are needed. Without
        the scope for it there are none. Raises RetryLater, Revoked.
        """
        rows: list[Json] = []
        cursor = ""
        for _ in range(pages):
            page = await self.optional.attempt(
                feature, self.read, method, cursor=cursor, limit=PAGE_SIZE, **asked
            )
            rows += find_objects(page, key)
            cursor = find_text(page, "response_metadata", "next_cursor")
            if not cursor or 0 < enough <= len(rows):
                return rows
        if pages > 1:
            where = asked.get("channel", "the list of chats")
            log.warning("%s: there is more in %s than is read; some may be missed", method, where)
        return rows

    async def get_identity(self) -> str:
        """Who we are; our ids are known from then on. Raises RetryLater, Revoked."""
        try:
            answer = await self._call("POST", "auth.test", {})
        except SlackError as error:
            raise Revoked(str(error)) from error
        keys = ("user_id", "bot_id", "team_id")
        self.user, self.bot, self.team = (find_text(answer, key) for key in keys)
        return f"@{find_text(answer, 'user')} in {find_text(answer, 'team')}"

    def is_author(self, message: Json) -> bool:
        """We wrote it."""
        ids = (find_text(message, "user"), self.user), (find_text(message, "bot_id"), self.bot)
        return any(own == author != "" for author, own in ids)

    async def open_socket(self) -> str:
        """An address that is good for one connection. Raises RetryLater, Revoked."""
        method, token = "apps.connections.open", self.config.app_token
        try:
            return get_text(await self._call("POST", method, {}, token=token), "url")
        except SlackError as error:
            hint = "app_token needs connections:write, and Socket Mode has to be on"
            raise Revoked(f"{error}; {hint}") from error

    async def _call(
        self,
        verb: str,
        method: str,
        given: Json,
        *,
        sends: bool = False,
        token: str = "",
    ) -> Json:
        self._client.session = self.http.session
        status, headers, answer = 200, {}, None
        given = {key: value for key, value in given.items() if value not in ("", None)}
        login = {"Authorization": f"Bearer {token}"} if token else dict(self.headers)
        how: Json = {"http_verb": verb, "json" if sends else "params": given}
        try:
            with self.http.translate_errors(method, sends=sends):
                async with asyncio.timeout(self.timing.timeout_s):
                    response = await self._client.api_call(method, headers=login, **how)
            if isinstance(response.data, dict):
                return response.data
        except SlackApiError as error:
            # its `response` is the library's; aiohttp's where the answer is not JSON
            failed: Any = error.response
            status = getattr(failed, "status_code", None) or failed.status
            headers, answer = failed.headers, getattr(failed, "data", None)
        except (AttributeError, RecursionError, ValueError) as error:
            # the library trips over what is not a JSON object
            log.debug("Slack: %s: %r", method, error)
        raise _error_of(method, HttpAnswer(status, headers, answer), sends=sends)


def _error_of(method: str, answer: HttpAnswer, *, sends: bool) -> ChannelError:
    code, status, what = find_text(answer.value, "error"), answer.status, f"Slack: {method}"
    if status == 429 or code in RATE_LIMITED:
        wait_s = parse_seconds(answer.headers.get("Retry-After"), DEFAULT_WAIT_S)
        return RetryLater(f"{what}: too many calls", wait_s)
    if code in REVOKED_CODES:
        return Revoked(f"{what}: {code}; {CHECK_TOKENS}")
    if status == 503 or code in NOTHING_DONE:
        return RetryLater(f"{what}: {code or 'not available at the moment'}")
    if status >= 500 or code in HALF_DONE or (status < 300 and not code):
        why = code or f"HTTP {status}, no answer that can be read"
        return lost_answer(f"{what}: {why}", sends=sends)
    code = code or f"http_{status}"
    hint = HINTS.get(code, "")
    if code == "missing_scope":
        scope = find_text(answer.value, "needed") or "a scope that the app does not have"
        hint = f"add {scope} to the app's bot token scopes and install it again"
    error = SlackUnsupported if code in UNAVAILABLE else SlackError
    return error(f"{what}: {code}{hint and f'; {hint}'}", code)
