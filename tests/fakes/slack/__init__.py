"""A fake Slack on loopback: web API, Socket Mode, files, and the people of a workspace. As a process: __main__.py."""

import asyncio
import contextlib
import re
import uuid
from collections.abc import Callable, Sequence

from aiohttp import web

from tests.fakes.platform import OTHER, OWNER, Button, Calls, Fault, Shown, lose_what_was_sent
from tests.fakes.slack.methods import EVENT, Methods
from tests.fakes.slack.reading import read, shown_text
from tests.fakes.slack.server import APP_TOKEN, BOT_TOKEN, Server
from tests.fakes.slack.sockets import Sockets
from tests.fakes.slack.workspace import BOT, TEAM, Channel, Json, Workspace

ENTITY = re.compile(r"<(?:@|#|!|https?:|mailto:)[^<>]*>")
A_MOMENT_S = 0.1
KINDS = {"im": "im", "mpim": "mpim", "channel": "channel", "private": "group"}


class FakeSlack:
    """tests.fakes.platform.Platform. `ack_s`: how long Slack waits for an acknowledgement; `retries_s`: its pauses before it
    sends an event again, then it gives up.
    """

    def __init__(
        self, *, port: int = 0, ack_s: float = 3.0, retries_s: Sequence[float] = (0.0, 60.0, 300.0)
    ) -> None:
        self.name = "slack"
        self.calls = Calls()
        self.work = Workspace()
        self.sockets = Sockets(ack_s, retries_s, self._changed)
        self.methods = Methods(self.work, self._echo, self._whisper)
        self.server = Server(self.methods, self.sockets, self.calls, self._changed, port)
        self._events: dict[str, list[Json]] = {}
        self._whispered: list[str] = []
        self._news = asyncio.Event()
        for person in (OWNER, OTHER):
            self.private(person)

    @property
    def base_url(self) -> str:
        """What `base_url` in [slack] is to be."""
        return self.server.url + "/api/"

    @property
    def url(self) -> str:
        """Its root."""
        return self.server.url

    @property
    def pages(self) -> list[web.RouteDef]:
        """Pages beside what Slack has, to be added to before it starts."""
        return self.server.pages

    def config(self) -> dict[str, object]:
        """The section [slack]."""
        owner, other = self.person(OWNER), self.person(OTHER)
        tokens = {"app_token": APP_TOKEN, "bot_token": BOT_TOKEN, "base_url": self.base_url}
        return {**tokens, "owner_ids": [owner], "allowed_user_ids": [other]}

    async def start(self) -> None:
        """Listen."""
        await self.server.start()

    async def stop(self) -> None:
        """No longer reachable."""
        await self.server.stop()

    def person(self, name: str) -> str:
        """The id of a person."""
        return self.work.person(name)

    def private(self, person: str) -> str:
        """The id of the chat between the bot and this person."""
        return self.work.open("im", person).id

    def group(self, *people: str) -> str:
        """The id of a channel with the bot and these people."""
        return self.work.open("channel", *people).id

    def circle(self, *people: str) -> str:
        """The id of a group message (mpim) with the bot and these people."""
        return self.work.open("mpim", *people).id

    def mention(self, text: str) -> str:
        """The text, addressed to the bot."""
        return f"<@{BOT}> {text}"

    def say(
        self,
        person: str,
        chat: str,
        text: str,
        *,
        thread: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        """The person writes; the message's ts."""
        user, channel = self.person(person), self.work.channel(chat, member=False)
        kept = [self.work.keep_file(self.server.url, name, data, user) for name, data in files]
        subtype = "file_share" if kept else None
        more = {"thread_ts": thread, "files": kept, "subtype": subtype, "text": escaped(text)}
        return self.happens(channel, self.work.post(channel, user, **more))

    def share(self, person: str, chat: str, quoted: str, comment: str = "") -> str:
        """The person passes on somebody else's message, with or without a comment."""
        channel = self.work.channel(chat)
        attachment = {
            "is_msg_unfurl": True,
            "is_share": True,
            "author_name": "Zoe",
            "text": escaped(quoted),
            "fallback": "x",
        }
        more: Json = {"text": escaped(comment), "attachments": [attachment]}
        return self.happens(channel, self.work.post(channel, self.person(person), **more))

    def post(
        self, person: str, chat: str, text: str = "", *, thread: str = "", **more: object
    ) -> str:
        """The person writes what has blocks or attachments, as they are."""
        channel, more = self.work.channel(chat), {"thread_ts": thread, **more}
        message = self.work.post(channel, self.person(person), text=escaped(text), **more)
        return self.happens(channel, message)

    def alert(self, chat: str, text: str = "", *, thread: str = "", **more: object) -> str:
        """Another bot writes, named Alerts."""
        about = {"bot_id": "B0ALERTS", "subtype": "bot_message", "username": "Alerts"}
        return self.post("alerts", chat, text, thread=thread, **about, **more)

    def edit(self, person: str, message_id: str, text: str) -> None:
        """The person changes a message of theirs."""
        channel = self.work.where(message_id)
        message = channel.messages[message_id]
        before = dict(message)
        message |= {
            "text": escaped(text),
            "edited": {"user": self.person(person), "ts": self.work.ts()},
        }
        event = {
            "subtype": "message_changed",
            "hidden": True,
            "message": _event(message),
            "previous_message": _event(before),
        }
        self._tell(channel, event | {"type": "message", "ts": self.work.ts()}, message_id)

    def withdraw(self, message_id: str) -> None:
        """Somebody deletes a message."""
        channel = self.work.where(message_id)
        event: Json = {
            "type": "message",
            "subtype": "message_deleted",
            "hidden": True,
            "deleted_ts": message_id,
        }
        gone = _event(channel.messages.pop(message_id))
        self._tell(channel, event | {"ts": self.work.ts(), "previous_message": gone}, message_id)

    def again(self, message_id: str) -> None:
        """Slack sends the message's events once more, under the same ids."""
        for payload in self._events[message_id]:
            self.sockets.send("events_api", payload)

    def poison(self) -> None:
        """An event that nobody can read."""
        event = {"type": "message", "channel": 7, "user": ["U"], "text": {"no": "text"}, "ts": None}
        self.sockets.send("events_api", self._payload(event))

    def press(self, person: str, message_id: str, data: str) -> None:
        """The person presses a button."""
        channel = self.work.where(message_id)
        action = {
            "type": "button",
            "action_id": "a",
            "block_id": "b",
            "value": data,
            "action_ts": self.work.ts(),
        }
        container = {
            "type": "message",
            "message_ts": message_id,
            "channel_id": channel.id,
            "is_ephemeral": False,
        }
        more: Json = {
            "container": container,
            "actions": [action],
            "message": _event(channel.messages[message_id]),
        }
        self.sockets.send(
            "interactive", self._interaction(person, channel.id, "block_actions") | more
        )

    def shortcut(self, person: str, message_id: str, callback_id: str) -> None:
        """The person chooses the app's shortcut in the menu of a message."""
        channel = self.work.where(message_id)
        more: Json = {
            "callback_id": callback_id,
            "message_ts": message_id,
            "message": _event(channel.messages[message_id]),
        }
        self.sockets.send(
            "interactive", self._interaction(person, channel.id, "message_action") | more
        )

    def slash(self, person: str, chat: str, text: str, command: str = "/aidaemon") -> None:
        """The person types a slash command."""
        name = "directmessage" if chat.startswith("D") else "general"
        who = {"user_id": self.person(person), "user_name": person, "team_id": TEAM}
        payload = {
            "command": command,
            "text": text,
            "channel_id": chat,
            "channel_name": name,
            "trigger_id": self.work.ts(),
        }
        self.sockets.send(
            "slash_commands", {**who, **payload, "response_url": self._response_url(person)}
        )

    def pressed(self) -> list[str]:
        """Ephemeral texts that people saw: after pressing, and as replies to slash commands."""
        answers = [
            str(answer["text"]) for _, answer in self.sockets.acked if answer and "text" in answer
        ]
        return answers + self._whispered

    def react(self, person: str, message_id: str, emoji: str) -> None:
        """The person reacts; `emoji` is a name ("thumbsup") or the sign itself."""
        channel = self.work.where(message_id)
        name = {"👍": "+1", "👎": "-1", "❤️": "heart"}.get(emoji, emoji)
        message = channel.messages[message_id]
        message.setdefault("reactions_by", []).append((self.person(person), name))
        item = {"type": "message", "channel": channel.id, "ts": message_id}
        event = {
            "type": "reaction_added",
            "user": self.person(person),
            "reaction": name,
            "item": item,
        }
        event |= {"item_user": message["user"], "event_ts": self.work.ts()}
        self.sockets.send("events_api", self._payload(event))

    def shown(self, chat: str, thread: str = "") -> list[Shown]:
        """All that stands in the chat; with `thread`: the replies in it."""
        messages = self.work.channels[chat].messages.values() if chat in self.work.channels else ()
        return [self._shown(m) for m in messages if not thread or m.get("thread_ts") == thread]

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait until this holds. Raises TimeoutError."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    with contextlib.suppress(TimeoutError):  # what it looks at may be elsewhere
                        await asyncio.wait_for(self._news.wait(), A_MOMENT_S)
        except TimeoutError as late:
            methods = [method for method, _ in self.calls.made][-30:]
            raise TimeoutError(
                f"calls {methods}; {self.sockets.unacknowledged} without an acknowledgement"
            ) from late

    def fail(self, method: str, *faults: Fault) -> None:
        """The next calls go wrong so; "upload" and "download" are the files themselves."""
        self.server.faults.setdefault(method, []).extend(faults)

    def revoke(self) -> None:
        """The tokens are no longer known."""
        self.server.revoked = True
        self.refresh("link_disabled")

    def admit(self) -> None:
        """The tokens are known again."""
        self.server.revoked = False

    def cut(self) -> None:
        """The network is gone."""
        self.server.is_cut = True
        self.server.abort()

    async def mend(self) -> None:
        """The network is back."""
        await lose_what_was_sent()
        self.server.is_cut = False

    def refresh(self, reason: str = "refresh_requested") -> None:
        """Slack wants the app to connect anew."""
        self.sockets.say({"type": "disconnect", "reason": reason, "debug_info": {"host": "fake"}})

    def happens(self, channel: Channel, message: Json) -> str:
        """The app hears of this message, if it is in the channel; a mention in a channel as two events."""
        if BOT in channel.members:
            self._tell(channel, _event(message), message["ts"])
            if f"<@{BOT}>" in message["text"] and channel.kind != "im" and message["user"] != BOT:
                self._tell(channel, _event(message) | {"type": "app_mention"}, message["ts"])
        self._changed()
        return str(message["ts"])

    def _tell(self, channel: Channel, event: Json, message_id: str) -> None:
        kind = {} if event["type"] == "app_mention" else {"channel_type": KINDS[channel.kind]}
        payload = self._payload({**event, **kind, "channel": channel.id, "event_ts": event["ts"]})
        self._events.setdefault(message_id, []).append(payload)
        self.sockets.send("events_api", payload)

    def _echo(self, channel: Channel, message: Json) -> None:
        self._tell(channel, _event(message), message["ts"])

    def _whisper(self, user: str, text: str) -> None:
        self._whispered.append(shown_text(text))

    def _payload(self, event: Json) -> Json:
        authorized = [{"enterprise_id": None, "team_id": TEAM, "user_id": BOT, "is_bot": True}]
        about: Json = {
            "team_id": TEAM,
            "api_app_id": "A0APP",
            "type": "event_callback",
            "authorizations": authorized,
        }
        return {
            **about,
            "event": event,
            "event_id": "Ev" + uuid.uuid4().hex[:10].upper(),
            "event_time": int(self.work.now()),
        }

    def _interaction(self, person: str, chat: str, kind: str) -> Json:
        user = {"id": self.person(person), "username": person, "team_id": TEAM}
        about: Json = {
            "type": kind,
            "user": user,
            "team": {"id": TEAM, "domain": "fake"},
            "channel": {"id": chat, "name": "c"},
        }
        return {
            **about,
            "trigger_id": self.work.ts(),
            "action_ts": self.work.ts(),
            "response_url": self._response_url(person),
        }

    def _response_url(self, person: str) -> str:
        secret = uuid.uuid4().hex
        self.server.responses[secret] = [self.person(person)]
        return f"{self.server.url}/response/{secret}"

    def _shown(self, message: Json) -> Shown:
        markup, buttons = read(message)
        return Shown(
            id=message["ts"],
            author="aidaemon" if message["user"] == BOT else self.work.names[message["user"]],
            text=markup
            if "streaming_state" in message and not message.get("edits")
            else shown_text(markup),
            markup=markup,
            by_bot=message["user"] == BOT,
            buttons=tuple(Button(label, data) for label, data in buttons),
            edits=message.get("edits", 0),
            thread=message.get("thread_ts") or "",
            files=tuple(
                (file["name"], self.work.files[file["id"]][1]) for file in message.get("files", ())
            ),
            reactions=tuple(name for _, name in message.get("reactions_by", ())),
            draft=message.get("streaming_state") == "in_progress",
        )

    def _changed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def escaped(text: str) -> str:
    """What Slack makes of what a person types: mentions and links stay, the rest is escaped."""
    places = [match.span() for match in ENTITY.finditer(text)]
    done, at = "", 0
    for start, end in [*places, (len(text), len(text))]:
        plain = text[at:start].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        done, at = done + plain + text[start:end], end
    return done


def _event(message: Json) -> Json:
    return {key: message[key] for key in ("type", *EVENT) if key in message}
