"""Calls of Discord's REST API: every failure as what can be done about it (K14)."""

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from channels.base import ChannelError, Gone, Rejected, RetryLater, Revoked
from channels.discord.config import DiscordAccount, DiscordTiming
from channels.json_access import Json, find_object, find_text
from channels.transport import PlatformClient, lost_answer, parse_seconds

FILE_HOSTS = (".cdn.discordapp.com", ".media.discordapp.net")
USER_AGENT = "DiscordBot (https://aidaemon.invalid, 1)"
EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
SNOWFLAKE_BITS = 22
UNKNOWN_TOKEN = (
    "Discord does not accept bot_token (any more). What came in before is kept. Make a new token "
    "in the developer portal (Bot, Reset Token), put it into config.toml, and start again."
)
HINTS = {
    10003: "the channel is gone",
    10008: "the message is gone",
    50001: "the bot may not see this channel: give it View Channel, or invite it again",
    50007: "this person takes no direct messages from the bot",
    50013: "the bot lacks rights there: Send Messages, Attach Files, Add Reactions, Read History",
    50027: "a button or command can be answered for 15 minutes only",
    50035: "the message is malformed",
    40005: "the file is too big for Discord",
}
REPLY_REJECTED = (160002, 160009, 160010)
"""A message may be sent there, but not refer to another one: the bot may not read the history."""
TOO_LATE = 50027
MAX_WAIT_S, UPLOAD_S, MAX_TRIES, MAX_ERROR = 30.0, 180.0, 3, 200

log = logging.getLogger(__name__)


class ReplyRejected(Rejected):
    """The message may be sent, but not as a reply."""


class DiscordRest:
    """One bot's calls."""

    def __init__(self, config: DiscordAccount, timing: DiscordTiming) -> None:
        self.config, self.timing = config, timing
        self.http = PlatformClient("Discord", config.api_url, FILE_HOSTS)
        self._headers = {"Authorization": f"Bot {config.bot_token}", "User-Agent": USER_AGENT}
        self._free_at: dict[str, float] = {}
        self.bot_id = ""

    async def login(self) -> str:
        """The bot's name; its id is known from then on. Raises Revoked, RetryLater."""
        user = await self.call("GET", "/users/@me")
        self.bot_id = find_text(user, "id")
        if not self.bot_id:
            raise RetryLater("Discord's answer cannot be read")
        return find_text(user, "username")

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        file: tuple[Path, str] | None = None,
        timeout_s: float = 0.0,
    ) -> Any:
        """Discord's answer, as JSON. Raises Rejected, RetryLater, Revoked, and DeliveryUnknown
        where the answer to a call that changes something is lost.
        """
        what = f"{method} {path.split('/')[1]}"  # the rest may hold the token of a button
        timeout_s, sends = timeout_s or (UPLOAD_S if file else self.timing.call_s), method != "GET"
        how = {"what": what, "timeout_s": timeout_s, "headers": self._headers}
        url, loop = self.config.api_url + path, asyncio.get_running_loop()
        tries = 0
        while True:
            tries += 1
            await asyncio.sleep(self._free_at.pop(path, 0.0) - loop.time())
            if file:
                form = {"payload_json": json.dumps(body)}
                answer = await self.http.upload(url, form, "files[0]", *file, **how)
            else:
                answer = await self.http.request(method, url, json=body, sends=sends, **how)
            headers, fields = answer.headers, find_object(answer.value)
            if headers.get("X-RateLimit-Remaining") == "0":
                after_s = parse_seconds(headers.get("X-RateLimit-Reset-After"), 0.0)
                self._free_at[path] = loop.time() + after_s
            if answer.status < 300:
                return answer.value
            wait_s = float(tries)
            if answer.status == 429:
                after_s = fields.get("retry_after", headers.get("Retry-After"))
                wait_s = parse_seconds(after_s, MAX_WAIT_S)
                log.info("Discord limits %s (429): wait %g s", what, wait_s)
                if "retry_after" not in fields or wait_s > min(MAX_WAIT_S, timeout_s):
                    raise RetryLater("Discord asks us to write less", wait_s)
            elif answer.status not in (500, 502, 504) or tries == MAX_TRIES:
                raise _error_of(answer.status, fields, sends=sends)
            await asyncio.sleep(wait_s)


def _error_of(status: int, answer: Json, *, sends: bool) -> ChannelError:
    code = answer.get("code") or 0
    why = HINTS.get(code) or f"{status} {answer.get('message', '')}"[:MAX_ERROR].strip()
    if code in REPLY_REJECTED:
        return ReplyRejected(f"Discord rejects it: {why}")
    if status == 401 and code != TOO_LATE:
        return Revoked(UNKNOWN_TOKEN)
    if status == 503:
        return RetryLater("Discord has an internal error (503)")
    if status >= 500:
        return lost_answer(f"Discord has an internal error ({status})", sends=sends)
    error = Gone if status == 404 else Rejected
    return error(f"Discord rejects it: {why}")


def snowflake_at(moment: datetime) -> int:
    """The least id of that moment: ids hold the time, so they are ordered over all channels."""
    return max(0, (moment - EPOCH) // timedelta(milliseconds=1)) << SNOWFLAKE_BITS


def snowflake_before(snowflake: int, seconds: float) -> int:
    """So many seconds before."""
    return max(0, snowflake - (int(seconds * 1000) << SNOWFLAKE_BITS))


def parse_snowflake(value: object) -> int:
    """An id; 0 for what is none."""
    digits = str(value)
    return int(digits) if digits.isdecimal() and len(digits) <= 20 else 0
