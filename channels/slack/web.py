"""What came as JSON, taken apart with care: a value is of its type, or the whole cannot be read.

Who we are in a workspace.

What a refusal of Slack's means for the house.

Calls of Slack's web API: one try each, with a timeout; what went wrong is said as the house needs it (K13).
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
)
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.base import ChannelError, DeliveryUnknown, Rejected, RetryLater, Revoked
from channels.platform import proxy_for

Json = Mapping[str, object]


class UnreadablePayload(ValueError):
    """Slack sent something whose shape nobody knows."""


def get_text(data: Json, key: str) -> str:
    """The string at `key`. Raises Unreadable."""
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise UnreadablePayload(f"{key} is {type(value).__name__}, expected a text")
    return value


def find_text(data: Json, key: str) -> str:
    """The string at `key`; "" where there is none."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def get_object(data: Json, key: str) -> Json:
    """The object at `key`; an empty one where there is none."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def get_objects(data: Json, key: str) -> list[Json]:
    """The objects in the list at `key`."""
    value = data.get(key)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def get_texts(data: Json, key: str) -> list[str]:
    """The strings in the list at `key`."""
    value = data.get(key)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def get_int(data: Json, key: str) -> int:
    """The number at `key`; 0 where there is none."""
    value = data.get(key)
    return value if isinstance(value, int) else 0


@dataclass(frozen=True, slots=True)
class SlackIdentity:
    """`user`: our member id, by which we are mentioned; `bot`: the app's own; `team`: the workspace."""

    user: str
    bot: str
    team: str
    name: str
    workspace: str

    @classmethod
    def from_auth_test(cls, answer: Json) -> "SlackIdentity":
        """From `auth.test`."""
        user, name, workspace = (
            find_text(answer, "user_id"),
            find_text(answer, "user"),
            find_text(answer, "team"),
        )
        return cls(user, find_text(answer, "bot_id"), find_text(answer, "team_id"), name, workspace)

    def is_author(self, message: Json) -> bool:
        """A message of ours."""
        user, bot = find_text(message, "user"), find_text(message, "bot_id")
        return bool(user and user == self.user) or bool(bot and bot == self.bot)


REVOKED_CODES = frozenset(
    {
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "not_allowed_token_type",
        "app_uninstalled",
    }
)
HALF_DONE = frozenset({"fatal_error", "internal_error"})
"""Slack says of these that some of it may have happened."""
NOTHING_DONE = frozenset(
    {"service_unavailable", "request_timeout", "team_added_to_org", "ekm_access_denied"}
)
RATE_LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
UNAVAILABLE = frozenset(
    {
        "unknown_method",
        "method_deprecated",
        "missing_scope",
        "not_allowed",
        "feature_not_enabled",
        "http_400",
        "http_404",
    }
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
USUAL_WAIT_S = 5.0
TOKENS = (
    "check app_token and bot_token in [slack], and that the app is still installed in the workspace"
)


class SlackError(Rejected):
    """Slack said no, and why: `code` is its own word for it ("not_in_channel", "http_404")."""

    def __init__(self, why: str, code: str) -> None:
        super().__init__(why)
        self.code = code

    @property
    def is_unavailable(self) -> bool:
        """This workspace does not offer the method to us at all."""
        return self.code in UNAVAILABLE


def translate_answer(
    method: str, status: int, answer: Json, headers: Mapping[str, str], *, writes: bool
) -> ChannelError:
    """What to raise for an answer that is no success. `writes`: the method changes something at Slack."""
    code = find_text(answer, "error")
    if status == 429 or code in RATE_LIMITED:
        return RetryLater(
            f"Slack: {method}: too many calls", _retry_after(headers.get("Retry-After", ""))
        )
    if code in REVOKED_CODES:
        return Revoked(f"Slack: {method}: {code}; {TOKENS}")
    if status == 503 or code in NOTHING_DONE:
        return RetryLater(f"Slack: {method}: {code or 'not available at the moment'}")
    if status >= 500 or code in HALF_DONE or (status < 300 and not code):
        return lost_answer(
            f"Slack: {method}: {code or f'HTTP {status}, no answer that can be read'}",
            writes=writes,
        )
    return SlackError(
        f"Slack: {method}: {_describe_code(code or f'http_{status}', answer)}",
        code or f"http_{status}",
    )


def lost_answer(why: str, *, writes: bool) -> ChannelError:
    """The answer did not come: it may be done; what only reads may just be asked again."""
    return DeliveryUnknown(why) if writes else RetryLater(why)


def _describe_code(code: str, answer: Json) -> str:
    if code == "missing_scope":
        needed = find_text(answer, "needed") or "a scope that the app does not have"
        return f"missing_scope; add {needed} to the app's bot token scopes and install it again"
    return f"{code}; {HINTS[code]}" if code in HINTS else code


def _retry_after(value: str) -> float:
    try:
        return max(0.0, float(value))
    except ValueError:
        return USUAL_WAIT_S


def silent_logger() -> logging.Logger:
    """A logger for the library, which else makes up every line, wanted or not; the house says what went wrong."""
    return logging.Logger("slack_sdk", logging.CRITICAL + 1)


class SlackWeb:
    """The web API of one workspace. The library tries nothing again: after a lost answer that would post a message twice."""

    def __init__(self, *, app_token: str, bot_token: str, base_url: str, timeout_s: float) -> None:
        self.base_url = base_url
        self.proxy = proxy_for(base_url)
        self._app_token, self._bot_token, self._timeout_s = app_token, bot_token, timeout_s
        self._session: ClientSession | None = None
        self._client: AsyncWebClient | None = None

    @property
    def session(self) -> ClientSession:
        """The connections; opened when first needed."""
        if self._session is None or self._session.closed:
            self._session = ClientSession(timeout=ClientTimeout(total=None, sock_connect=10))
            self._client = None
        return self._session

    @property
    def client(self) -> AsyncWebClient:
        """The library's client."""
        session = self.session
        if self._client is None:
            token, url = self._bot_token, self.base_url
            self._client = AsyncWebClient(
                token=token,
                base_url=url,
                session=session,
                retry_handlers=[],
                logger=silent_logger(),
            )
            self._client.proxy = (
                self.proxy
            )  # the library takes any from the environment, and knows no exceptions
        return self._client

    @property
    def bearer(self) -> dict[str, str]:
        """The header for Slack's own files; it goes nowhere else."""
        return {"Authorization": f"Bearer {self._bot_token}"}

    async def write(self, method: str, **arguments: object) -> Json:
        """Change something. Raises Declined, Later, Unclear, Revoked."""
        return await self._call(method, writes=True, json=_without_empty(arguments))

    async def read(self, method: str, **arguments: object) -> Json:
        """Ask for something. Raises Declined, Later, Revoked."""
        return await self._call(
            method, writes=False, http_verb="GET", params=_without_empty(arguments)
        )

    async def auth_test(self) -> Json:
        """`auth.test`: who we are there. Raises Later, Revoked."""
        try:
            return await self._call("auth.test", writes=False, json={})
        except SlackError as no:
            raise Revoked(str(no)) from no

    async def open_socket(self) -> str:
        """Where to listen: an address that is good for one connection. Raises Later, Revoked."""
        try:
            return get_text(
                await self._call(
                    "apps.connections.open", writes=False, params={"token": self._app_token}
                ),
                "url",
            )
        except SlackError as no:
            raise Revoked(
                f"{no}; app_token needs connections:write, and Socket Mode has to be on"
            ) from no

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _call(self, method: str, *, writes: bool, **request: object) -> Json:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self.client.api_call(method, **request)  # type: ignore[arg-type]
        except SlackApiError as no:
            raise _translate_error(method, no, writes=writes) from None
        except (ClientConnectorError, ConnectionTimeoutError) as no:
            raise RetryLater(f"Slack: {method}: no connection ({type(no).__name__})") from no
        except (ClientError, ConnectionError, TimeoutError) as no:
            raise lost_answer(
                f"Slack: {method}: the answer was lost ({type(no).__name__})", writes=writes
            ) from no
        except (
            AttributeError,
            TypeError,
            ValueError,
        ) as no:  # the library trips over answers that are no JSON objects
            raise lost_answer(f"Slack: {method}: the answer cannot be read", writes=writes) from no
        return answer.data if isinstance(answer.data, dict) else {}


def _without_empty(arguments: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in arguments.items() if value not in ("", None)}


def _translate_error(method: str, no: SlackApiError, *, writes: bool) -> ChannelError:
    response = no.response
    answer = getattr(response, "data", None)
    status = getattr(response, "status_code", None) or getattr(response, "status", 200)
    headers = getattr(response, "headers", {})
    return translate_answer(
        method, int(status), answer if isinstance(answer, dict) else {}, headers, writes=writes
    )
