"""What a server may offer: its tools as they were when it was first met, or as the owner has approved them since (A22).

What has changed in the tools of a server, as the owner is shown it before a yes: nothing hidden, nothing left out unsaid.

The owner's word on what a server has changed: what is shown before a yes, and the yes, which is to exactly that (A22).
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Protocol

from daemon.core import value
from daemon.tools.mcp.protocol import ServerTool, stable_json
from daemon.tools.mcp.tools import HIDDEN_CHARS, exposed_name

STORED_CHARS = 20_000
CODE = 8


@value
class ToolPin:
    """A definition as it is kept: `digest` is of the whole, the description may be cut."""

    definition: ServerTool
    digest: str

    @classmethod
    def of(cls, definition: ServerTool) -> "ToolPin":
        """Fit to be kept."""
        return cls(
            replace(definition, description=definition.description[:STORED_CHARS]),
            definition.digest,
        )


@value
class ServerPins:
    """Of one server: what holds, and what waits for the owner, each by the server's own name of the tool. `told` is the code of
    what the owner has been told of last; `salt` is chance, so that no server can make two offers of the same code.
    """

    approved: Mapping[str, ToolPin] = field(default_factory=dict)
    waiting: Mapping[str, ToolPin] = field(default_factory=dict)
    notified_code: str = ""
    salt: str = field(default="", repr=False)

    @property
    def code(self) -> str:
        """What stands for exactly that which waits; "" when nothing does."""
        return approval_code(self.waiting.values(), self.salt)


@value
class ToolListing:
    """What a list of tools comes to. `usable` and `off` are in the server's order; `off` are changed or new."""

    pins: ServerPins
    usable: tuple[ServerTool, ...] = ()
    disabled: tuple[ToolPin, ...] = ()
    first: bool = False


def compare_tools(pins: ServerPins | None, offered: Sequence[ServerTool]) -> ToolListing:
    """A server that was never met is believed; later each tool must be what it was, and a new one waits. One that is gone is
    remembered, so that it can come back as it was, but not as another.
    """
    if pins is None:
        known = ServerPins({one.name: ToolPin.of(one) for one in offered})
        return ToolListing(known, tuple(offered), first=True)
    usable = tuple(one for one in offered if _is_approved(one, pins))
    waiting = {one.name: ToolPin.of(one) for one in offered if not _is_approved(one, pins)}
    off = tuple(pins.approved.get(name, pin) for name, pin in waiting.items())
    return ToolListing(replace(pins, waiting=waiting), usable, off)


def approve_tools(pins: ServerPins, names: Iterable[str]) -> ServerPins:
    """These tools hold from now on as they wait."""
    said = {name: pin for name, pin in pins.waiting.items() if name in set(names)}
    left = {name: pin for name, pin in pins.waiting.items() if name not in said}
    return replace(pins, approved={**pins.approved, **said}, waiting=left)


def approval_code(waiting: Iterable[ToolPin], salt: str) -> str:
    """A yes is bound to this, so that it cannot be a yes to what came after it was read."""
    digests = sorted(pin.digest for pin in waiting)
    return sha256("".join((salt, *digests)).encode()).hexdigest()[:CODE] if digests else ""


def _is_approved(definition: ServerTool, pins: ServerPins) -> bool:
    pin = pins.approved.get(definition.name)
    return pin is not None and pin.digest == definition.digest


def pins_to_json(pins: ServerPins) -> str:
    """As it is kept in the journal."""
    return stable_json(
        {
            "approved": _pins_to_rows(pins.approved),
            "waiting": _pins_to_rows(pins.waiting),
            "told": pins.notified_code,
            "salt": pins.salt,
        }
    )


def pins_from_json(text: str) -> ServerPins:
    """What was kept."""
    kept = json.loads(text)
    return ServerPins(
        _pins_from_rows(kept["approved"]),
        _pins_from_rows(kept["waiting"]),
        kept["told"],
        kept.get("salt", ""),
    )


def _pins_to_rows(pins: Mapping[str, ToolPin]) -> dict[str, list[str]]:
    return {
        name: [
            pin.digest,
            pin.definition.description,
            pin.definition.schema,
            pin.definition.annotations,
        ]
        for name, pin in pins.items()
    }


def _pins_from_rows(rows: Mapping[str, Sequence[str]]) -> dict[str, ToolPin]:
    return {
        name: ToolPin(ServerTool(name, description, schema, annotations), digest)
        for name, (digest, description, schema, annotations) in rows.items()
    }


DIFF_WIDTH = 120
DIFF_LINES = 40


def render_diff(pins: ServerPins, tools: Sequence[str] = (), *, lines: int = DIFF_LINES) -> str:
    """All that waits, or these tools of it, as a diff against what holds; at most so many lines of each tool, 0 for all."""
    names = [name for name in pins.waiting if not tools or name in tools]
    return "\n".join(
        line
        for name in names
        for line in _diff_tool(name, pins.approved.get(name), pins.waiting[name], lines)
    )


def _diff_tool(name: str, old: ToolPin | None, new: ToolPin, most: int) -> Iterator[str]:
    yield f"{escape_hidden(name)}: " + ("changed" if old else "new")
    found = list(
        difflib.unified_diff(_pin_lines(old) if old else [], _pin_lines(new), lineterm="", n=1)
    )[2:]
    lines = [line for line in found if not line.startswith("@@")]
    kept = lines[:most] if most else lines
    yield from (f"  {line}" for line in kept)
    if not lines:
        yield f"  the change is beyond what is kept of its description ({len(new.definition.description)} characters)"
    if len(lines) > len(kept):
        yield f"  [... {len(lines) - len(kept)} more lines]"


def _pin_lines(pin: ToolPin) -> list[str]:
    one = pin.definition
    table = {"arguments": json.loads(one.schema), "hints": json.loads(one.annotations)}
    text = f"{one.description}\n{json.dumps(table, ensure_ascii=False, indent=1, sort_keys=True)}"
    return [escape_hidden(part) for line in text.split("\n") for part in _wrap(line)]


def _wrap(line: str) -> list[str]:
    return [line[at : at + DIFF_WIDTH] for at in range(0, len(line), DIFF_WIDTH)] or [""]


def escape_hidden(text: str) -> str:
    """What cannot be seen is written out."""
    return "".join(
        f"\\u{{{ord(one):x}}}" if HIDDEN_CHARS.match(one) or not one.isprintable() else one
        for one in text
    )


APPROVE_HINT = "Approve exactly this: /mcp approve {server} {code}"


class PinRepository(Protocol):
    """Where the pins of all servers are kept."""

    async def get(self, server: str) -> ServerPins | None:
        """Those of this server; None when it was never met."""
        ...

    async def keep(self, server: str, pins: ServerPins) -> None:
        """From now on these. Raises StoreUnavailable."""
        ...


async def approve_waiting(
    shelf: PinRepository, server: str, code: str, tools: Sequence[str] = ()
) -> tuple[str, ...]:
    """Yes to what stands behind this code, or to these tools of it, named either way; the server's names of those that hold
    now. None of them when something else waits by now.
    """
    pins = await shelf.get(server) or ServerPins()
    if not pins.code or pins.code != code:
        return ()
    names = tuple(
        name
        for name in pins.waiting
        if not tools or name in tools or exposed_name(server, name) in tools
    )
    if names:
        await shelf.keep(server, approve_tools(pins, names))
    return names


def render_overview(
    servers: Sequence[str], pins: Mapping[str, ServerPins], ailments: Mapping[str, str]
) -> str:
    """A line for each configured server, and what waits."""
    lines = [_overview_line(name, pins.get(name), ailments.get(name, "")) for name in servers]
    return "\n".join(lines) if lines else "No MCP server is configured: [mcp.NAME] in config.toml."


def _overview_line(server: str, pins: ServerPins | None, ailment: str) -> str:
    if pins is None:
        return f"{server}: not met yet" + (f"; {escape_hidden(ailment)}" if ailment else "")
    names = ", ".join(exposed_name(server, name) for name in pins.approved) or "no tools"
    waits = (
        f"; {len(pins.waiting)} changed or new, which wait for you: /mcp {server}"
        if pins.waiting
        else ""
    )
    return f"{server}: {names}{waits}" + (
        f"\n   it is not there now: {escape_hidden(ailment)}" if ailment else ""
    )


def render_change(
    server: str, pins: ServerPins | None, tools: Sequence[str] = (), *, lines: int = DIFF_LINES
) -> str:
    """What waits, and what to say to approve exactly that."""
    if pins is None or not pins.waiting:
        return f"Nothing of {server} waits for an approval."
    named = [name for name in pins.waiting if name in tools or exposed_name(server, name) in tools]
    if tools and not named:
        return f"No tool of that name waits: {', '.join(escape_hidden(name) for name in pins.waiting)}."
    shown = render_diff(pins, named, lines=lines)
    words = " ".join([pins.code, *(exposed_name(server, name) for name in named)])
    more = (
        f"All of it: /mcp whole {server}\n"
        if lines and shown != render_diff(pins, named, lines=0)
        else ""
    )
    return f"{shown}\n{more}{APPROVE_HINT.format(server=server, code=words)}"
