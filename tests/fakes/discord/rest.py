"""The fake's REST side: what discord.com/api/v10 does with the calls of a bot, and what it refuses."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import BodyPartReader, web

from tests.fakes.discord.world import APP, BOT, EPHEMERAL, Place, World, now
from tests.fakes.platform import OWNER, Calls, Fault

Json = dict[str, Any]
KNOWN = {
    *(
        "content",
        "nonce",
        "tts",
        "embeds",
        "allowed_mentions",
        "message_reference",
        "components",
        "sticker_ids",
    ),
    *("attachments", "flags", "enforce_nonce", "poll"),
}
SENDING = ("POST messages", "PATCH messages", "DELETE messages", "POST followup")
BODY = web.RequestKey("body", dict[str, Any])
FILES = web.RequestKey("files", list[tuple[str, bytes]])
MEANING = {
    10003: (404, "Unknown Channel"),
    10008: (404, "Unknown Message"),
    10062: (404, "Unknown interaction"),
    40060: (400, "Interaction has already been acknowledged."),
    50001: (403, "Missing Access"),
    50006: (400, "Cannot send an empty message"),
    50007: (403, "Cannot send messages to this user"),
    50013: (403, "Missing Permissions"),
    50027: (401, "Invalid Webhook Token"),
    160002: (403, "Cannot reply without permission to read message history"),
}
Emit = Callable[..., None]


class Wrong(Exception):
    """What Discord answers instead."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(body["message"])
        self.status, self.body = status, body


def known(code: int) -> Wrong:
    status, message = MEANING[code]
    return Wrong(status, {"message": message, "code": code})


def invalid(where: str, why: str) -> Wrong:
    errors: Json = {"_errors": [{"code": "BASE_TYPE", "message": why}]}
    for part in reversed(where.split(".")):
        errors = {part: errors}
    return Wrong(400, {"message": "Invalid Form Body", "code": 50035, "errors": errors})


def answer(body: object, status: int = 200, **headers: str) -> web.Response:
    """Real Discord, and discord.py, want exactly this content type, without a charset."""
    return web.Response(
        body=json.dumps(body).encode(),
        status=status,
        headers={"Content-Type": "application/json", **headers},
    )


@dataclass
class Interaction:
    """A press or a slash command under way."""

    id: str
    token: str
    at: float
    message: Json | None = None
    answered: bool = False
    ephemeral: bool = False


@dataclass
class Rest:
    """`commands`: by guild id ("" for global ones). `leaks`: tokens that came where none belongs. `bucket`: so many messages per
    channel in so many seconds, told in headers as the real one does. `lives_s`: how long an interaction can be followed up.
    """

    world: World
    calls: Calls
    emit: Emit
    valid: Callable[[str], bool]
    base: Callable[[], str]
    happened: Callable[[], None]
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    commands: dict[str, list[Json]] = field(default_factory=dict)
    interactions: dict[str, Interaction] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    answer_within_s: float = 3.0
    lives_s: float = 900.0
    bucket: tuple[int, float] | None = None
    spent: dict[str, list[float]] = field(default_factory=dict)

    def routes(self) -> list[web.RouteDef]:
        """Under /api/v10, and where files are kept."""
        api, channel, app = "/api/v10", "/api/v10/channels/{channel}", "/api/v10/applications/{app}"
        one = channel + "/messages/{message}"
        table: list[tuple[str, str, str, Callable[[web.Request], Awaitable[web.Response]]]] = [
            ("GET users/@me", "GET", f"{api}/users/@me", self._me),
            ("GET application", "GET", f"{api}/oauth2/applications/@me", self._application),
            ("GET gateway", "GET", f"{api}/gateway", self._gateway),
            ("GET gateway", "GET", f"{api}/gateway/bot", self._gateway),
            ("POST users/@me/channels", "POST", f"{api}/users/@me/channels", self._open_direct),
            ("GET channels", "GET", channel, self._channel),
            ("GET messages", "GET", f"{channel}/messages", self._history),
            ("GET message", "GET", one, self._message),
            ("POST messages", "POST", f"{channel}/messages", self._post),
            ("PATCH messages", "PATCH", one, self._patch),
            ("DELETE messages", "DELETE", one, self._delete),
            ("POST typing", "POST", f"{channel}/typing", self._typing),
            ("PUT reactions", "PUT", one + "/reactions/{emoji}/@me", self._react),
            ("POST threads", "POST", f"{channel}/threads", self._thread),
            ("POST threads", "POST", f"{one}/threads", self._thread),
            (
                "POST callback",
                "POST",
                api + "/interactions/{interaction}/{token}/callback",
                self._callback,
            ),
            ("POST followup", "POST", api + "/webhooks/{app}/{token}", self._followup),
            (
                "PATCH followup",
                "PATCH",
                api + "/webhooks/{app}/{token}/messages/{message}",
                self._followup,
            ),
            (
                "DELETE followup",
                "DELETE",
                api + "/webhooks/{app}/{token}/messages/{message}",
                self._unsay,
            ),
            ("GET commands", "GET", f"{app}/commands", self._commands),
            ("PUT commands", "PUT", f"{app}/commands", self._register),
            ("GET commands", "GET", app + "/guilds/{guild}/commands", self._commands),
            ("PUT commands", "PUT", app + "/guilds/{guild}/commands", self._register),
            ("GET file", "GET", "/attachments/{channel}/{file}/{name}", self._file),
        ]
        defined = [web.route(verb, path, self._strict(name, do)) for name, verb, path, do in table]
        return [
            *defined,
            web.route("*", api + "/{rest:.*}", self._strict("unknown", self._unknown)),
        ]

    def _strict(
        self, name: str, do: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Any]:
        """Note the call, let go wrong what is to go wrong, check the token, and say no as Discord does."""

        async def handle(request: web.Request) -> web.StreamResponse:
            body, files = await taken(request)
            request[BODY], request[FILES] = body, files
            self.calls.made.append((name, {**request.match_info, **request.query, **body}))
            fault = self._next_fault(name)
            spoilt = await spoil(request, fault) if fault else None
            if spoilt is not None:
                self.happened()
                return spoilt
            try:
                self._check_token(request, name)
                response = self._limit(request) if name == "POST messages" and self.bucket else None
                response = response or await do(request)
            except Wrong as wrong:
                response = answer(wrong.body, wrong.status)
            self._tell_limit(request, response, name)
            self.happened()
            if fault and fault.kind == "lost" and request.transport:
                request.transport.abort()
            return response

        return handle

    def _limit(self, request: web.Request) -> web.Response | None:
        """429 for one message too many; one more is spent else."""
        most, seconds = self.bucket or (1 << 30, 0.0)
        channel, at = request.match_info["channel"], time.monotonic()
        spent = self.spent[channel] = [
            one for one in self.spent.get(channel, []) if at - one < seconds
        ]
        if len(spent) >= most:
            body = {
                "message": "You are being rate limited.",
                "retry_after": seconds - (at - spent[0]),
                "global": False,
            }
            return answer(body, 429, **{"Via": "1.1 google"})
        spent.append(at)
        return None

    def _tell_limit(self, request: web.Request, response: web.Response, name: str) -> None:
        if (
            name == "POST messages"
            and self.bucket
            and (spent := self.spent.get(request.match_info["channel"]))
        ):
            most, seconds = self.bucket
            after = max(0.0, seconds - (time.monotonic() - spent[0]))
            told = {
                "Limit": most,
                "Remaining": most - len(spent),
                "Reset-After": after,
                "Bucket": "b",
            }
            response.headers.update(
                {f"X-RateLimit-{key}": str(value) for key, value in told.items()}
            )

    def _next_fault(self, name: str) -> Fault | None:
        for key in (name, "*") if name in SENDING else (name,):
            waiting = self.faults.get(key) or []
            if waiting:
                waiting[0].times -= 1
                return waiting.pop(0) if waiting[0].times <= 0 else waiting[0]
        return None

    def _check_token(self, request: web.Request, name: str) -> None:
        given = request.headers.get("Authorization")
        if name == "GET file":
            self.leaks += [given] if given else []
        elif name not in (
            "POST callback",
            "POST followup",
            "PATCH followup",
            "DELETE followup",
            "GET gateway",
        ) and not (given and self.valid(given)):
            raise Wrong(401, {"message": "401: Unauthorized", "code": 0})

    def _place(self, request: web.Request, *, write: bool = False) -> Place:
        place = self.world.places.get(request.match_info["channel"])
        if place is None:
            raise known(10003)
        if place.deny and (write or place.deny == 50001):
            raise known(place.deny)
        return place

    def _ours(self, request: web.Request) -> Json:
        message = self.world.messages.get(request.match_info["message"])
        if message is None or message["channel_id"] != request.match_info["channel"]:
            raise known(10008)
        return message

    async def _unknown(self, request: web.Request) -> web.Response:
        raise Wrong(404, {"message": "404: Not Found", "code": 0})

    async def _me(self, request: web.Request) -> web.Response:
        return answer(self.world.bot)

    async def _application(self, request: web.Request) -> web.Response:
        app = {
            "id": APP,
            "name": "aidaemon",
            "description": "",
            "bot_public": True,
            "verify_key": "00",
            "flags": 1 << 19,
        }
        app |= {"icon": None, "summary": "", "bot_require_code_grant": False, "team": None}
        return answer(app | {"owner": self.world.person(OWNER)})

    async def _gateway(self, request: web.Request) -> web.Response:
        return answer({"url": self.base().replace("http", "ws", 1), "shards": 1})

    async def _open_direct(self, request: web.Request) -> web.Response:
        name = next(
            (
                n
                for n, u in self.world.users.items()
                if u["id"] == str(request[BODY].get("recipient_id"))
            ),
            None,
        )
        if name is None:
            raise invalid("recipient_id", "Unknown user.")
        return answer(self.world.direct(name).payload(self.world.users))

    async def _channel(self, request: web.Request) -> web.Response:
        return answer(self._place(request).payload(self.world.users))

    async def _history(self, request: web.Request) -> web.Response:
        place = self._place(request)
        after, before = (
            int(request.query.get("after", 0)),
            int(request.query.get("before", 1 << 63)),
        )
        if not 1 <= (limit := int(request.query.get("limit", 50))) <= 100:
            raise invalid("limit", "int value should be between 1 and 100.")
        return answer(
            []
            if place.blind
            else self.world.history(place.id, after=after, before=before, limit=limit)
        )

    async def _message(self, request: web.Request) -> web.Response:
        self._place(request)
        return answer(self._ours(request))

    async def _post(self, request: web.Request) -> web.Response:
        place, body = self._place(request, write=True), request[BODY]
        checked(body, request[FILES])
        nonce = str(body.get("nonce") or "")
        at, before = self.world.nonces.get(nonce, (0.0, ""))
        if (
            nonce
            and body.get("enforce_nonce")
            and time.monotonic() - at < 300
            and before in self.world.messages
        ):
            return answer(self.world.messages[before])
        more: Json = {
            "components": body.get("components") or [],
            "flags": body.get("flags", 0),
            "nonce": nonce or None,
        }
        if reference := body.get("message_reference"):
            self._refers(place, reference, more)
        more["attachments"] = [self._keep(place.id, name, data) for name, data in request[FILES]]
        message = self.world.write(
            place, self.world.bot, str(body.get("content") or "").strip(), **more
        )
        self.world.nonces[nonce] = (time.monotonic(), message["id"])
        place.joined = True
        self.emit("MESSAGE_CREATE", self.world.event(message), guild=bool(place.guild))
        return answer(message)

    def _refers(self, place: Place, reference: Json, more: Json) -> None:
        if place.blind:
            raise known(160002)
        other = self.world.messages.get(str(reference.get("message_id")))
        if other is None or other["channel_id"] != place.id:
            if reference.get("fail_if_not_exists", True):
                raise invalid("message_reference", "Unknown message")
            return
        more |= {
            "message_reference": {**reference, "channel_id": place.id},
            "referenced_message": other,
            "type": 19,
        }

    def _keep(self, channel: str, name: str, data: bytes) -> Json:
        number = self.world.snowflake()
        path = f"/attachments/{channel}/{number}/{name}"
        self.world.stored[path] = data
        url = self.base() + path
        kind = "image/png" if name.endswith(".png") else "text/plain; charset=utf-8"
        return {
            "id": number,
            "filename": name,
            "size": len(data),
            "url": url,
            "proxy_url": url,
            "content_type": kind,
        }

    def keep(self, channel: str, name: str, data: bytes) -> Json:
        """An attachment, as it stands in a message."""
        return self._keep(channel, name, data)

    async def _patch(self, request: web.Request) -> web.Response:
        self._place(request)
        message, body = self._ours(request), request[BODY]
        checked({"content": message["content"], **body}, request[FILES] or message["attachments"])
        if message["author"]["id"] != BOT:
            raise Wrong(
                403, {"message": "Cannot edit a message authored by another user", "code": 50005}
            )
        message.update(
            {key: body[key] for key in ("content", "components", "flags") if key in body},
            edited_timestamp=now(),
        )
        self.world.edits[message["id"]] = self.world.edits.get(message["id"], 0) + 1
        event = self.world.event(message)
        self.emit("MESSAGE_UPDATE", event, guild="guild_id" in event)
        return answer(message)

    async def _delete(self, request: web.Request) -> web.Response:
        self._place(request)
        self.world.messages.pop(self._ours(request)["id"])
        return web.Response(status=204)

    async def _typing(self, request: web.Request) -> web.Response:
        self._place(request, write=True)
        return web.Response(status=204)

    async def _react(self, request: web.Request) -> web.Response:
        self._place(request, write=True)
        self.world.reactions.setdefault(self._ours(request)["id"], []).append(
            request.match_info["emoji"]
        )
        return web.Response(status=204)

    async def _thread(self, request: web.Request) -> web.Response:
        place = self._place(request, write=True)
        thread = self.world.thread(
            request.match_info.get("message") or self.world.snowflake(), place.id, BOT, joined=True
        )
        self.emit("THREAD_CREATE", {**thread.payload(self.world.users), "newly_created": True})
        return answer(thread.payload(self.world.users), 201)

    async def _callback(self, request: web.Request) -> web.Response:
        asked = self.interactions.get(request.match_info["token"])
        late = asked is not None and time.monotonic() - asked.at > self.answer_within_s
        if asked is None or late or asked.id != request.match_info["interaction"]:
            raise known(10062)
        if asked.answered:
            raise known(40060)
        kind, data = request[BODY].get("type"), request[BODY].get("data") or {}
        if kind not in (4, 5, 6) or (kind == 6 and asked.message is None):
            raise invalid("type", "Value must be one of {4, 5, 6}.")
        asked.answered, asked.ephemeral = True, bool(data.get("flags", 0) & EPHEMERAL)
        if kind == 4:
            self.shown.append(str(data.get("content", "")))
        return web.Response(status=204)

    def _asked(self, request: web.Request) -> Interaction:
        asked = self.interactions.get(request.match_info["token"])
        if asked is None or not asked.answered or request.match_info["app"] != APP:
            raise Wrong(404, {"message": "Unknown Webhook", "code": 10015})
        if time.monotonic() - asked.at > self.lives_s:
            raise known(50027)
        return asked

    async def _followup(self, request: web.Request) -> web.Response:
        asked = self._asked(request)
        checked(request[BODY], [])
        if not (request[BODY].get("flags", 0) & EPHEMERAL or asked.ephemeral):
            raise invalid("flags", "The fake wants followups to be seen by one person only.")
        self.shown.append(request[BODY]["content"])
        return answer({"id": self.world.snowflake(), "content": request[BODY]["content"]})

    async def _unsay(self, request: web.Request) -> web.Response:
        self._asked(request)
        return web.Response(status=204)

    async def _commands(self, request: web.Request) -> web.Response:
        return answer(self.commands.get(request.match_info.get("guild", ""), []))

    async def _register(self, request: web.Request) -> web.Response:
        for command in (wanted := request[BODY]["list"]):
            if (
                not 1 <= len(command.get("name", "")) <= 32
                or command["name"] != command["name"].lower()
            ):
                raise invalid("name", "Command name is invalid")
            if not 1 <= len(command.get("description", "")) <= 100:
                raise invalid("description", "Must be between 1 and 100 in length.")
        if len(wanted) > 100:
            raise invalid("commands", "Must be 100 or fewer in length.")
        kept = [
            {"id": self.world.snowflake(), "application_id": APP, "version": "1", "type": 1, **c}
            for c in wanted
        ]
        self.commands[request.match_info.get("guild", "")] = kept
        return answer(kept)

    async def _file(self, request: web.Request) -> web.Response:
        data = self.world.stored.get(request.path)
        return web.Response(status=404) if data is None else web.Response(body=data)


async def taken(request: web.Request) -> tuple[Json, list[tuple[str, bytes]]]:
    """The body of a request, and the files with it."""
    if request.content_type.startswith("multipart/"):
        body: Json = {}
        files: list[tuple[str, bytes]] = []
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            if part.name == "payload_json":
                body = json.loads(await part.text())
            else:
                files.append((part.filename or "", bytes(await part.read())))
        return body, files
    if not request.can_read_body or request.content_type != "application/json":
        return {}, []
    read = await request.json()
    return (read if isinstance(read, dict) else {"list": read}), []


async def spoil(request: web.Request, fault: Fault) -> web.StreamResponse | None:
    """What goes wrong before anything is done; None when it is done after all."""
    match fault.kind:
        case "status":
            return web.Response(
                status=fault.status,
                text=fault.text or "<html>oops</html>",
                content_type="text/html",
            )
        case "retry":
            body = {
                "message": "You are being rate limited.",
                "retry_after": fault.seconds,
                "global": fault.text == "global",
            }
            return answer(
                body,
                429,
                **{
                    "Retry-After": str(fault.seconds),
                    "X-RateLimit-Scope": "user",
                    "Via": "1.1 google",
                },
            )
        case "drop":
            if request.transport:
                request.transport.abort()
            return web.Response()
        case "slow":
            await asyncio.sleep(fault.seconds)
            return None
        case "garbage":
            return web.Response(text="<html>hello</html>", content_type="text/html")
        case _:
            return None


def checked(body: Json, files: object) -> None:
    """Refuse what Discord refuses of a message."""
    if stray := next((key for key in body if key not in KNOWN), None):
        raise invalid(stray, "Unknown field.")
    if len(str(body.get("content") or "")) > 2000:
        raise invalid("content", "Must be 2000 or fewer in length.")
    if len(str(body.get("nonce") or "")) > 25:
        raise invalid("nonce", "Must be 25 or fewer in length.")
    rows = body.get("components") or []
    if len(rows) > 5 or any(not 1 <= len(row["components"]) <= 5 for row in rows):
        raise invalid("components", "Must be between 1 and 5 in length.")
    for button in (button for row in rows for button in row["components"]):
        if not 1 <= len(button["custom_id"]) <= 100 or not 1 <= len(button["label"]) <= 80:
            raise invalid(
                "components.0.components.0.custom_id", "Must be between 1 and 100 in length."
            )
    if not str(body.get("content") or "").strip() and not files and not body.get("embeds"):
        raise known(50006)
