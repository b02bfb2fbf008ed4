"""A channel without a platform: what people see stands in memory, every call is noted, and anything can be made to go wrong."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import BinaryIO, TypeVar

from channels.base import Capabilities, Channel, ChannelError, Host, RateLimit, Rejected, Revoked
from channels.message import (
    Address,
    Arrival,
    Attachment,
    ButtonPress,
    Choice,
    InboundMessage,
    MessagePart,
    OutboundMessage,
    Reaction,
    Sender,
)
from daemon.access.directory import roles_of_config
from daemon.app.config import ConfiguredAccount

T = TypeVar("T")
OWNER, OTHER, STRANGER = "1", "2", "666"
NEVER = 3600.0
CAN, FAST = Capabilities(limit=4096, draft_every_s=0.05, typing_every_s=0.2), RateLimit(1000, 1.0)


@dataclass(slots=True)
class Stood:
    """A message of ours as people see it. `key` is that of the first call that made it."""

    id: str
    address: Address
    text: str
    key: str
    choices: tuple[Choice, ...] = ()
    reply_to: str = ""
    file: str = ""
    edits: int = 0
    draft: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """What the channel was asked to do: method, where, the text or message, the key."""

    method: str
    address: Address
    text: str
    key: str = ""
    at: float = 0.0


@dataclass(slots=True)
class Trouble:
    """What goes wrong with a call. `happens`: it is done all the same. Without an error the call hangs until it is cancelled;
    with `before` and `after`, which are awaited around the effect, it only waits for them.
    """

    error: ChannelError | Exception | None = None
    happens: bool = False
    times: int = 1
    before: Callable[[], Awaitable[object]] | None = None
    after: Callable[[], Awaitable[object]] | None = None


@dataclass(slots=True)
class FakeChannel:
    """`channels.base.Channel`. The platform's side (`stood`, `calls`) outlives the house, as a real one's does.

    `quiet`: the platform does not answer; `breaks`: what `run` is to raise."""

    name: str = "telegram"
    capabilities: Capabilities = CAN
    pace: RateLimit = FAST
    stood: list[Stood] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    troubles: dict[str, list[Trouble]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    seen_marks: list[str] = field(default_factory=list)
    host: Host | None = None
    revoked: bool = False
    quiet: bool = False
    breaks: Exception | None = None
    runs: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _ids: Iterator[int] = field(default_factory=lambda: count(1000))
    _incoming: Iterator[int] = field(default_factory=lambda: count(1))
    _revoked: asyncio.Event = field(default_factory=asyncio.Event)

    # the people's side

    def fail(self, method: str, *troubles: Trouble) -> None:
        """The next calls of this method go wrong so."""
        self.troubles.setdefault(method, []).extend(troubles)

    def revoke(self) -> None:
        """The token is known no longer."""
        self.revoked = True
        self._revoked.set()

    def admit(self) -> None:
        """It is known again."""
        self.revoked = False
        self._revoked.clear()

    async def arrive(self, *arrivals: Arrival) -> None:
        """Hand them over, as a poll would. Raises NotTaken."""
        await self.until(lambda: self.host is not None)
        assert self.host
        await self.host.accept(arrivals)

    async def say(
        self, text: str, sender: str = OWNER, chat: str = "", **more: object
    ) -> InboundMessage:
        """Somebody writes; in their private chat unless another is named."""
        inbound = self.message(text, sender, chat)
        inbound = replace(inbound, **more)  # type: ignore[arg-type]
        await self.arrive(inbound)
        return inbound

    def message(self, text: str, sender: str = OWNER, chat: str = "") -> InboundMessage:
        """What somebody writes, not handed over yet."""
        number = str(next(self._incoming))
        where = Address(self.name, chat or sender)
        return InboundMessage(
            where, Sender(sender), f"{self.name}-{number}", text, number, private=not chat
        )

    async def press(
        self, data: str, sender: str = OWNER, chat: str = "", message: str = "1"
    ) -> str:
        """Somebody presses a button; what they are shown."""
        await self.until(lambda: self.host is not None)
        assert self.host
        return await self.host.press_button(
            ButtonPress(Address(self.name, chat or sender), Sender(sender), data, message)
        )

    async def react(self, message: str, emoji: str, sender: str = OWNER, chat: str = "") -> None:
        """Somebody reacts to a message of ours."""
        await self.arrive(
            Reaction(Address(self.name, chat or sender), Sender(sender), message, emoji)
        )

    def shown(self, chat: str = OWNER, thread: str = "") -> list[Stood]:
        """What stands in a chat now, oldest first."""
        return [one for one in self.stood if one.address == Address(self.name, chat, thread)]

    def texts(self, chat: str = OWNER) -> list[str]:
        """What it says, drafts included."""
        return [one.text for one in self.shown(chat)]

    def of(self, method: str) -> list[Call]:
        """The calls of this method, in order."""
        return [call for call in self.calls if call.method == method]

    async def until(self, holds: Callable[[], object], seconds: float = 15.0) -> None:
        """Wait until this holds, looking whenever something happens here, and now and then besides."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    async with self.changed:
                        try:
                            await asyncio.wait_for(self.changed.wait(), 0.05)
                        except TimeoutError:
                            continue
        except TimeoutError:
            told = "\n".join(
                f"{call.method} {call.address.chat} {call.text[:80]!r}" for call in self.calls[-20:]
            )
            raise TimeoutError(f"it never came to that; there stand {self.stood}\n{told}") from None

    async def buttons(self, chat: str = OWNER) -> dict[str, str]:
        """Label -> data of the buttons that stand in the chat, once there are some."""
        await self.until(lambda: any(one.choices for one in self.shown(chat)))
        return {choice.label: choice.data for one in self.shown(chat) for choice in one.choices}

    # the house's side

    async def check(self) -> str:
        if self.revoked:
            raise Revoked("the token is not known")
        return "@fake"

    async def run(self, host: Host) -> None:
        self.runs += 1
        while True:
            broken, self.breaks = self.breaks, None
            if broken:
                raise broken
            if self.revoked:
                raise Revoked("the token is not known")
            self.host = host
            if not self.quiet:
                host.report_alive()
            await self._happened()
            try:
                await asyncio.wait_for(self._revoked.wait(), 0.2)
            except TimeoutError:
                continue

    def rate_limit(self, address: Address) -> RateLimit:
        return self.pace

    def render(self, text: str) -> Sequence[MessagePart]:
        limit = self.capabilities.limit
        return [
            MessagePart(text[at : at + limit], text[at : at + limit])
            for at in range(0, max(1, len(text)), limit)
        ]

    async def send(self, message: OutboundMessage) -> str:
        where, text, key, name = message.address, message.part.text, message.key, message.name
        made = Stood("", where, text, key, tuple(message.choices), message.reply_to, name)
        what = ("upload", where, name) if message.file else ("send", where, text)
        return await self._call(*what, key, lambda: self._stand(made))

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        text, choices = message.part.text, tuple(message.choices)
        await self._call(
            "edit",
            message.address,
            text,
            message_id,
            lambda: self._edited(message_id, text, choices),
        )

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        def look() -> str:
            ours = [
                one
                for one in self.stood
                if one.key == message.key and one.address == message.address
            ]
            return ours[0].id if ours and self.capabilities.can_find else ""

        return await self._call("find", message.address, message.part.text, message.key, look)

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        def show() -> str:
            if shown:
                self._edited(shown, text, (), draft=True)
                return shown
            return self._stand(Stood("", address, text, key, draft=True))

        return await self._call("draft", address, text, key, show)

    async def delete(self, address: Address, message_id: str) -> None:
        def gone() -> None:
            self.stood = [one for one in self.stood if one.id != message_id]

        await self._call("delete", address, message_id, "", gone)

    async def show_typing(self, address: Address, status: str = "") -> None:
        await self._call("typing", address, status, "", lambda: None)

    async def mark_seen(self, address: Address, message_id: str) -> None:
        await self._call(
            "seen", address, message_id, "", lambda: self.seen_marks.append(message_id)
        )

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        into.write(self.files[attachment.ref])

    async def aclose(self) -> None:
        self.host = None

    def _stand(self, made: Stood) -> str:
        known = (
            next((one for one in self.stood if one.key == made.key), None)
            if self.capabilities.idempotent
            else None
        )
        if known:
            return known.id
        self.stood.append(replace(made, id=str(next(self._ids))))
        return self.stood[-1].id

    def _edited(
        self, message: str, text: str, choices: tuple[Choice, ...], *, draft: bool = False
    ) -> None:
        one = next((one for one in self.stood if one.id == message), None)
        if one is None:
            raise Rejected("there is no such message")
        one.text, one.choices, one.draft, one.edits = text, choices, draft, one.edits + 1

    async def _call(
        self, method: str, address: Address, text: str, key: str, effect: Callable[[], T]
    ) -> T:
        """Note it, let go wrong what is to, do it."""
        self.calls.append(Call(method, address, text, key, asyncio.get_running_loop().time()))
        await self._happened()
        trouble = self._next(method)
        if self.revoked:
            raise Revoked("the token is not known")
        if trouble and trouble.before:
            await trouble.before()
        if trouble and not (
            trouble.happens or trouble.after or (trouble.before and not trouble.error)
        ):
            await self._goes_wrong(trouble)
        result = effect()
        await self._happened()
        if trouble and trouble.after:
            await trouble.after()
        elif trouble and trouble.happens:
            await self._goes_wrong(trouble)
        return result

    def _next(self, method: str) -> Trouble | None:
        queue = self.troubles.get(method) or []
        if not queue:
            return None
        queue[0].times -= 1
        return queue.pop(0) if queue[0].times <= 0 else queue[0]

    @staticmethod
    async def _goes_wrong(trouble: Trouble) -> None:
        if trouble.error:
            raise trouble.error
        await asyncio.sleep(NEVER)

    async def _happened(self) -> None:
        async with self.changed:
            self.changed.notify_all()


@dataclass(frozen=True, slots=True)
class Listed:
    """`daemon.app.config.Account`: whom the config of a channel lists."""

    bot_token: str = "fake"
    allowed_user_ids: Sequence[str | int] = (OTHER,)
    owner_ids: Sequence[str | int] = (OWNER,)


@dataclass(frozen=True, slots=True)
class Brought(ConfiguredAccount):
    """A channel in place of one of the config."""

    channel: Channel = field(default_factory=FakeChannel)

    def import_channel(self) -> None:
        return

    def create_channel(self) -> Channel:
        return self.channel


def brought(*channels: Channel) -> list[ConfiguredAccount]:
    """For `daemon.app.channels.at_work`."""
    found: list[ConfiguredAccount] = []
    for channel in channels:
        kind = channel.name.rpartition("/")[2]
        listed = Listed()
        roles = roles_of_config(listed.allowed_user_ids, listed.owner_ids)
        found.append(Brought(channel.name, kind, listed, kind, roles, channel=channel))
    return found
