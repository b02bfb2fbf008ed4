"""A real Discord on loopback: REST and gateway, strict as the real one is, and people who use it. By hand: __main__.py."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from tests.fakes.discord.gateway import Gateway
from tests.fakes.discord.rest import Interaction, Rest
from tests.fakes.discord.world import APP, BOT, GENERAL, GUILD, Place, World, now, read
from tests.fakes.platform import OTHER, OWNER, Button, Calls, Fault, Shown, lose_what_was_sent

Json = dict[str, Any]
TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAx.fake.discord-token"


class FakeDiscord:
    """tests.fakes.platform.Platform as Discord. The methods of `calls` and `fail` are named "POST messages", "op 2"."""

    name = "discord"

    def __init__(self, *, heartbeat_ms: int = 5000, granted: bool = True, port: int = 0) -> None:
        self.calls = Calls()
        self.port = port
        self.pages: list[web.RouteDef] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.world = World()
        self.gateway = Gateway(
            self.world,
            lambda: self._token,
            self._gateway_url,
            self._told,
            heartbeat_ms,
            granted=granted,
        )
        self.gateway.guilds = (GUILD,)
        self.rest = Rest(
            self.world, self.calls, self._emit, self._is_valid, lambda: self.url, self._tell
        )
        self._token = TOKEN
        self._is_cut = False
        self._news = asyncio.Event()
        self._runner: web.AppRunner | None = None
        for person in (OWNER, OTHER):
            self.world.person(person)

    @property
    def url(self) -> str:
        """Its root."""
        return f"http://127.0.0.1:{self.port}"

    def _gateway_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def _is_valid(self, header: str) -> bool:
        return header == f"Bot {self._token}"

    def config(self) -> dict[str, object]:
        allowed = [int(self.person(OWNER)), int(self.person(OTHER))]
        reach = {"api_url": f"{self.url}/api/v10", "gateway_url": self._gateway_url()}
        return {"bot_token": TOKEN, "allowed_user_ids": allowed, "owner_ids": allowed[:1], **reach}

    async def start(self) -> None:
        app = web.Application(client_max_size=30 << 20, middlewares=[self._network()])
        app.add_routes([web.get("/", self._enter), *self.pages, *self.rest.routes()])
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner:
            self.gateway.reset()
            await self._runner.cleanup()
            self._runner = None

    def _network(self) -> Callable[..., Any]:
        @web.middleware
        async def pass_on(request: web.Request, handler: Callable[..., Any]) -> web.StreamResponse:
            if self._is_cut and request.transport:
                request.transport.abort()
                return web.Response()
            return await handler(request)

        return pass_on

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        return await self.gateway.serve(request)

    def _told(self, op: str, data: Json) -> None:
        self.calls.made.append((op, data))
        self._tell()

    def _emit(self, event: str, data: Json, *, guild: bool = True) -> None:
        self.gateway.emit(event, data, guild=guild)
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def person(self, name: str) -> str:
        return self.world.person(name)["id"]

    def private(self, person: str) -> str:
        return self.world.direct(person).id

    def group(self, *people: str) -> str:
        return self.room(*people)

    def room(self, *people: str, guild: str = GUILD) -> str:
        """A channel of a guild; the bot is told of it."""
        before = set(self.world.places)
        place = self.world.channel(people, guild)
        if place.id not in before:
            self._emit("CHANNEL_CREATE", place.payload(self.world.users))
        return place.id

    def thread(self, name: str, chat: str, *, by: str = "", joined: bool = False) -> str:
        """A thread in a channel, opened by a person, or by the bot ("")."""
        before = set(self.world.places)
        place = self.world.thread(
            name, chat, self.person(by) if by else BOT, joined=joined or not by
        )
        if place.id not in before:
            self._emit("THREAD_CREATE", {**place.payload(self.world.users), "newly_created": True})
        return place.id

    def mention(self, text: str) -> str:
        return f"<@{BOT}> {text}"

    def say(
        self,
        person: str,
        chat: str,
        text: str,
        *,
        thread: str = "",
        files: Sequence[tuple[str, bytes]] = (),
        reply_to: str = "",
        **more: object,
    ) -> str:
        """As the platform has it; `more` goes into the message as it is."""
        place = self.world.places[self.thread(thread, chat, by=person) if thread else chat]
        more["attachments"] = [
            *(self.rest.keep(place.id, *file) for file in files),
            *_as_list(more.get("attachments")),
        ]
        if reply_to:
            more |= {
                "type": 19,
                "message_reference": {"message_id": reply_to, "channel_id": place.id},
            }
            more["referenced_message"] = self.world.messages.get(reply_to)
        message = self.world.write(place, self.world.person(person), text, **more)
        self._emit("MESSAGE_CREATE", self.world.event(message), guild=bool(place.guild))
        return message["id"]

    def edit(self, message_id: str, text: str) -> None:
        """Its author changes a message."""
        message = self.world.messages[message_id]
        message.update(content=text, edited_timestamp=now())
        event = self.world.event(message)
        self._emit("MESSAGE_UPDATE", event, guild="guild_id" in event)

    def again(self, message_id: str) -> None:
        event = self.world.event(self.world.messages[message_id])
        self._emit("MESSAGE_CREATE", event, guild="guild_id" in event)

    def poison(self) -> None:
        broken: Json = {
            "id": self.world.snowflake(),
            "channel_id": GENERAL,
            "author": None,
            "content": 5,
            "guild_id": GUILD,
        }
        self._emit("MESSAGE_CREATE", broken)

    def _interaction(
        self, person: str, place: Place, kind: int, data: Json, message: Json | None
    ) -> Json:
        number = self.world.snowflake()
        token = f"itok-{number}"
        self.rest.interactions[token] = Interaction(
            number, token, asyncio.get_running_loop().time(), message
        )
        user = self.world.person(person)
        body: Json = {
            "id": number,
            "application_id": APP,
            "type": kind,
            "token": token,
            "version": 1,
            "data": data,
        }
        body |= {
            "channel_id": place.id,
            "channel": place.payload(self.world.users),
            "locale": "en-US",
            "app_permissions": "0",
        }
        body |= {
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": 10 << 20,
        }
        body |= (
            {"guild_id": place.guild, "member": {"user": user, "roles": []}}
            if place.guild
            else {"user": user}
        )
        return body | ({"message": message} if message else {})

    def press(self, person: str, message_id: str, data: str) -> None:
        message = self.world.messages[message_id]
        place = self.world.places[message["channel_id"]]
        pressed = {"custom_id": data, "component_type": 2}
        self._emit("INTERACTION_CREATE", self._interaction(person, place, 3, pressed, message))

    def slash(self, person: str, chat: str, name: str, text: str = "") -> None:
        """The person uses a command of the platform's menu."""
        options = [{"name": "text", "type": 3, "value": text}] if text else []
        data = {"id": self.world.snowflake(), "name": name, "type": 1, "options": options}
        self._emit(
            "INTERACTION_CREATE", self._interaction(person, self.world.places[chat], 2, data, None)
        )

    def pressed(self) -> list[str]:
        return list(self.rest.shown)

    def react(self, person: str, message_id: str, emoji: str) -> None:
        message = self.world.messages[message_id]
        place = self.world.places[message["channel_id"]]
        body: Json = {
            "user_id": self.person(person),
            "channel_id": place.id,
            "message_id": message_id,
        }
        body |= {
            "emoji": {"id": None, "name": emoji or "👍"},
            "message_author_id": message["author"]["id"],
            "type": 0,
        }
        body |= {"guild_id": place.guild} if place.guild else {}
        self._emit(
            "MESSAGE_REACTION_ADD" if emoji else "MESSAGE_REACTION_REMOVE",
            body,
            guild=bool(place.guild),
        )

    def shown(self, chat: str, thread: str = "") -> list[Shown]:
        place = self.world.thread(thread, chat, BOT, joined=False).id if thread else chat
        return [self._shown(message, thread) for message in self.world.here(place)]

    def _shown(self, message: Json, thread: str) -> Shown:
        buttons = tuple(
            Button(b["label"], b["custom_id"])
            for row in message["components"]
            for b in row["components"]
        )
        kept = self.world.stored
        files = tuple(
            (a["filename"], kept.get(a["url"].removeprefix(self.url), b""))
            for a in message["attachments"]
        )
        return Shown(
            message["id"],
            self.world.name_of(message["author"]["id"]),
            read(message["content"]),
            message["content"],
            message["author"]["id"] == BOT,
            buttons,
            self.world.edits.get(message["id"], 0),
            thread,
            files,
            tuple(self.world.reactions.get(message["id"], ())),
        )

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while not holds():
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(
                    f"calls: {[name for name, _ in self.calls.made][-30:]}, shown: {self.rest.shown}"
                )
            news = self._news
            try:
                async with asyncio.timeout(0.1):
                    await news.wait()
            except TimeoutError:
                continue

    def fail(self, method: str, *faults: Fault) -> None:
        self.rest.faults.setdefault(method, []).extend(faults)

    def revoke(self) -> None:
        self._token = "revoked"
        self.close(4004)

    def admit(self) -> None:
        self._token = TOKEN

    def close(self, code: int) -> None:
        """Close every connection of the gateway with this code."""
        self._later(self.gateway.close(code))

    def control(self, op: int, data: object = None) -> None:
        """Say op 7 (reconnect) or 9 (invalid session)."""
        self._later(self.gateway.control(op, data))

    def _later(self, doing: Any) -> None:
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks = {task, *(t for t in self._tasks if not t.done())}

    def cut(self) -> None:
        self._is_cut = True
        self.gateway.reset()

    async def mend(self) -> None:
        await lose_what_was_sent()
        self._is_cut = False


def _as_list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else []
