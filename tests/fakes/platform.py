"""What every fake platform can do for a test or a page, whichever it plays: one interface, so that one suite fits all."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

OWNER, OTHER, STRANGER = "ann", "bob", "eve"
"""The people of a fake platform: its config lists ann as owner and bob as allowed; nobody knows eve. More names may be used
freely: `Platform.person` gives the platform's id of any name, always the same."""


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message."""

    label: str
    data: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as people see it in a chat. `markup` is what the bot sent, `text` what is read; `edits`: how often it changed."""

    id: str
    author: str
    text: str
    markup: str = ""
    by_bot: bool = False
    buttons: tuple[Button, ...] = ()
    edits: int = 0
    thread: str = ""
    files: tuple[tuple[str, bytes], ...] = ()
    reactions: tuple[str, ...] = ()
    draft: bool = False


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong with a call. kind: "status" (answer so), "retry" (429 after `seconds`), "drop" (cut the
    connection before anything happened), "lost" (do it, then cut the connection: the answer is lost), "slow" (answer after
    `seconds`), "garbage" (200 with HTML). `times`: for so many calls.
    """

    kind: str
    status: int = 500
    seconds: float = 0.0
    text: str = ""
    times: int = 1


@dataclass(slots=True)
class Calls:
    """What the bot asked of the platform, in order: (method, arguments)."""

    made: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def of(self, method: str) -> list[dict[str, object]]:
        """The arguments of all calls of this method."""
        return [arguments for name, arguments in self.made if name == method]


class Platform(Protocol):
    """A server on loopback that behaves like the platform, and people who use it."""

    name: str
    calls: Calls

    def config(self) -> dict[str, object]:
        """The section of config.toml that reaches it: tokens, addresses, ann as owner, bob as allowed. Numbers stay numbers."""
        ...

    async def start(self) -> None:
        """Listen; at the same port as before, after `stop`."""
        ...

    async def stop(self) -> None:
        """No longer reachable; what happened there stays."""
        ...

    def person(self, name: str) -> str:
        """The id of a person."""
        ...

    def private(self, person: str) -> str:
        """The id of the chat between the bot and this person."""
        ...

    def group(self, *people: str) -> str:
        """The id of a chat with the bot and these people, in which it is addressed by a mention."""
        ...

    def mention(self, text: str) -> str:
        """The text, addressed to the bot, as one types it in a group."""
        ...

    def say(
        self,
        person: str,
        chat: str,
        text: str,
        *,
        thread: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        """The person writes; the message's id. It reaches the bot when the bot is there to hear it, as the platform has it."""
        ...

    def again(self, message_id: str) -> None:
        """The platform sends the message once more, as if it had not been acknowledged."""
        ...

    def poison(self) -> None:
        """The platform sends something that nobody can read, among the rest."""
        ...

    def press(self, person: str, message_id: str, data: str) -> None:
        """The person presses the button with this data under the message; any data, for a hostile client may send any."""
        ...

    def pressed(self) -> list[str]:
        """What people were shown after pressing: toasts and ephemeral texts, in order."""
        ...

    def react(self, person: str, message_id: str, emoji: str) -> None:
        """The person reacts to a message."""
        ...

    def shown(self, chat: str, thread: str = "") -> list[Shown]:
        """What stands in the chat now, oldest first."""
        ...

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait until this holds, looking whenever something happens at the platform. Raises TimeoutError, with what there was."""
        ...

    def fail(self, method: str, *faults: Fault) -> None:
        """The next calls of the method go wrong so, in order; "*" is any method that sends something."""
        ...

    def revoke(self) -> None:
        """The bot's token is no longer known: calls are refused, open connections closed as the platform does it."""
        ...

    def admit(self) -> None:
        """The token is known again."""
        ...

    def cut(self) -> None:
        """The network is gone: open connections are reset, new ones dropped, until `mend`."""
        ...

    async def mend(self) -> None:
        """The network is back; what was sent meanwhile is lost."""
        ...


MENDING_STEPS = 20


async def lose_what_was_sent() -> None:
    """What a process has sent that is dead by now is read, also where nobody has accepted its connection yet; the network is still away."""
    for _ in range(MENDING_STEPS):
        await asyncio.sleep(0)


Started = Callable[[], Awaitable[Platform]]
