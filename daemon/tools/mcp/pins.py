"""A server's tools and program as its owner approved them: pinned when the server is first met,
then by a yes to a diff (A22).
"""

import difflib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, TypeAdapter

from daemon.core import value
from daemon.store.journal import Store
from daemon.tools.mcp.tools import (
    HIDDEN_CHARS,
    RESOURCES,
    ServerTool,
    UnfitTool,
    make_spec,
    make_tool_name,
    sanitize_line,
    stable_json,
)

STORED_CHARS = 20_000
PROGRAM = "(its program)"
MAX_FILES, MAX_BYTES = 5000, 256 << 20
SKIPPED = frozenset((".git", "__pycache__", "node_modules", ".npm", ".cache"))
CODE_CHARS = 8
DIFF_WIDTH, DIFF_LINES = 120, 40
MAX_LEFT_OUT, MAX_SHOWN = 20, 500


class ToolPin(NamedTuple):
    """A stored definition: `digest` is of the whole, the description may be cut."""

    digest: str
    description: str
    schema: str
    annotations: str


@value
class ServerPins:
    """What is approved and what waits for the owner, by the server's own tool names; `left_out`:
    what cannot be used of a tool, or the whole of it, and why.

    `salt` is random, so that no server can make two offers with the same code.
    """

    approved: Mapping[str, ToolPin] = field(default_factory=dict)
    waiting: Mapping[str, ToolPin] = field(default_factory=dict)
    notified_code: Annotated[str, Field(alias="told")] = ""
    salt: str = field(default="", repr=False)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """Identifies exactly what waits, so that a yes is to nothing else; "" for nothing."""
        digests = sorted(pin.digest for pin in self.waiting.values())
        text = "".join((self.salt, *digests))
        return sha256(text.encode()).hexdigest()[:CODE_CHARS] if digests else ""

    def list_waiting(self, server: str, tools: Sequence[str]) -> list[str]:
        """The waiting tools among these names, the server's own or the exposed ones; all for ()."""
        return [
            name
            for name in self.waiting
            if not tools or name in tools or make_tool_name(server, name) in tools
        ]


def list_pinned_names(servers: Iterable[str], pins: Mapping[str, ServerPins]) -> list[str]:
    """The tools of these servers as models call them; `SERVER__*` for a server that was never met,
    which may have any.
    """
    found: list[str] = []
    for server in servers:
        if (known := pins.get(server)) is None:
            found.append(f"{server}__*")
            continue
        names = dict.fromkeys((*known.approved, *known.waiting, RESOURCES.name))
        found += [make_tool_name(server, name) for name in names if name != PROGRAM]
    return found


@value
class ToolListing:
    """A server's list of tools against its pins; `disabled` tools are changed or new."""

    pins: ServerPins
    usable: tuple[ServerTool, ...] = ()
    disabled: tuple[ServerTool, ...] = ()


def compare_tools(
    pins: ServerPins | None, offered: Sequence[ServerTool], salt: str = ""
) -> ToolListing:
    """A new server is trusted; later a tool must be as approved, and a new one waits.

    A tool that is gone stays pinned, so that it can only come back as it was. `salt` is for pins
    that have none.
    """
    made = {
        one.name: ToolPin(one.digest, one.description[:STORED_CHARS], one.schema, one.annotations)
        for one in offered
        if one.name != PROGRAM
    }
    if pins is None:
        return ToolListing(ServerPins(made, salt=salt), tuple(offered))
    approved = pins.approved
    waiting = {
        name: pin
        for name, pin in made.items()
        if name not in approved or approved[name].digest != pin.digest
    }
    usable = tuple(one for one in offered if one.name not in waiting)
    disabled = tuple(
        ServerTool(name, *approved.get(name, pin)[1:]) for name, pin in waiting.items()
    )
    return ToolListing(replace(pins, waiting=waiting, salt=pins.salt or salt), usable, disabled)


def approve_tools(pins: ServerPins, names: Iterable[str]) -> ServerPins:
    """Approve these tools as they wait."""
    approved, waiting = dict(pins.approved), dict(pins.waiting)
    for name in waiting.keys() & names:
        approved[name] = waiting.pop(name)
    return replace(pins, approved=approved, waiting=waiting)


def pin_program(argv: Sequence[str], places: Iterable[Path]) -> ToolPin:
    """The files that a server's command runs, as they are now; the largest packages in part."""
    found: dict[str, str] = {}
    left = MAX_BYTES
    for path in sorted({one.resolve() for place in places for one in _list_files(place)}):
        size = path.stat().st_size
        if len(found) >= MAX_FILES or size > left:
            break
        left -= size
        found[str(path)] = sha256(path.read_bytes()).hexdigest()
    words, lines = stable_json(list(argv)), [f"{name} {code[:16]}" for name, code in found.items()]
    digest = sha256(stable_json([words, found]).encode()).hexdigest()
    return ToolPin(digest, "\n".join(lines)[:STORED_CHARS], words, "{}")


def _list_files(place: Path) -> Iterator[Path]:
    for folder, inside, names in os.walk(place):
        inside[:] = [one for one in inside if one not in SKIPPED]
        yield from (path for name in names if (path := Path(folder, name)).is_file())
    if place.is_file():
        yield place


def compare_program(pins: ServerPins | None, now: ToolPin, salt: str) -> ServerPins | None:
    """None where the server may start: its files are as approved, or its owner gave it another
    command.
    """
    known = pins.approved.get(PROGRAM) if pins else None
    if pins is None or known is None or known.schema != now.schema or known.digest == now.digest:
        return None
    return replace(pins, waiting={**pins.waiting, PROGRAM: now}, salt=pins.salt or salt)


PINS = TypeAdapter(ServerPins)


@value
class PinStore:
    """The pins of all servers, in the journal."""

    store: Store

    async def get(self, server: str) -> ServerPins | None:
        """None for a server that was never met."""
        text = await self.store.read(lambda tx: tx.get_pins(server))
        return None if text is None else PINS.validate_json(text)

    async def keep(self, server: str, pins: ServerPins) -> None:
        """Replace the server's pins. Raises StoreUnavailable."""
        text = stable_json(PINS.dump_python(pins, by_alias=True))
        await self.store.write(lambda tx: tx.put_pins(server, text))

    async def forget(self, server: str) -> None:
        """It is met anew. Raises StoreUnavailable."""
        await self.store.write(lambda tx: tx.remove_pins(server))

    async def all(self) -> dict[str, ServerPins]:
        """The pins of every server that was ever met."""
        rows = await self.store.read(lambda tx: tx.list_pins())
        return {name: PINS.validate_json(text) for name, text in rows.items()}

    async def approve(self, server: str, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """Approve what this code stands for, or these tools of it; the server's names of them.

        () if something else waits by now.
        """
        pins = await self.get(server) or ServerPins()
        names = tuple(pins.list_waiting(server, tools)) if code and pins.code == code else ()
        if names:
            await self.keep(server, approve_tools(pins, names))
        return names


def render_overview(
    servers: Sequence[str], pins: Mapping[str, ServerPins], problems: Mapping[str, str]
) -> str:
    """A line for each configured server, and what waits."""
    lines = []
    for server in servers:
        problem, known = escape_hidden(problems.get(server, "")), pins.get(server)
        if known is None:
            lines.append(f"{server}: not met yet" + (f"; {problem}" if problem else ""))
            continue
        tools = [make_tool_name(server, name) for name in known.approved if name != PROGRAM]
        names = ", ".join(tools) or "no tools"
        line = f"{server}: {names}"
        if known.waiting:
            line += f"; {len(known.waiting)} changed or new, which wait for you: /mcp {server}"
        lines.append(line + (f"\n   it is not there now: {problem}" if problem else ""))
        lines += render_left_out(known.left_out)
    return "\n".join(lines) or "No MCP server is configured: [mcp.NAME] in config.toml."


def sort_tools(
    server: str, listed: Iterable[ServerTool], unread: Mapping[str, str]
) -> tuple[dict[str, ServerTool], dict[str, str]]:
    """Those that can be offered to a model, and what was left out of the others, and why."""
    offered: dict[str, ServerTool] = {}
    left_out = dict(unread)
    for tool in listed:
        try:
            if tool.name in offered or tool.name == PROGRAM:
                raise UnfitTool("it is listed twice")
            make_spec(server, tool)
            offered[tool.name] = tool
        except UnfitTool as why:
            left_out[tool.name] = f"left out: {why}"
    return offered, {name[:MAX_SHOWN]: why[:MAX_SHOWN] for name, why in left_out.items()}


def render_left_out(left_out: Mapping[str, str]) -> list[str]:
    """A line for each tool that cannot be used as the server describes it."""
    lines = [
        f"   {sanitize_line(escape_hidden(name))}: {sanitize_line(escape_hidden(why), 500)}"
        for name, why in left_out.items()
    ]
    more = [f"   and {len(lines) - MAX_LEFT_OUT} more"] if len(lines) > MAX_LEFT_OUT else []
    return lines[:MAX_LEFT_OUT] + more


def render_change(
    server: str, pins: ServerPins | None, tools: Sequence[str] = (), *, whole: bool = False
) -> str:
    """The diff of what waits, and the command that approves exactly that."""
    if pins is None or not pins.waiting:
        none = f"Nothing of {server} waits for an approval."
        return "\n".join((none, *(render_left_out(pins.left_out) if pins else ())))
    names = pins.list_waiting(server, tools)
    if not names:
        return f"No tool of that name waits: {', '.join(map(escape_hidden, pins.waiting))}."
    lines, is_cut = [], False
    for name in names:
        old = pins.approved.get(name)
        diff = _diff_pins(old, pins.waiting[name])
        lines.append(f"{escape_hidden(name)}: {'changed' if old else 'new'}")
        lines += diff if whole else diff[:DIFF_LINES]
        if not whole and len(diff) > DIFF_LINES:
            is_cut = True
            lines.append(f"  [... {len(diff) - DIFF_LINES} more lines]")
    if is_cut:
        lines.append(f"All of it: /mcp whole {server}")
    words = [pins.code, *(make_tool_name(server, name) for name in names if tools)]
    return "\n".join((*lines, f"Approve exactly this: /mcp approve {server} {' '.join(words)}"))


def _diff_pins(old: ToolPin | None, new: ToolPin) -> list[str]:
    before = _pin_lines(old) if old else []
    found = list(difflib.unified_diff(before, _pin_lines(new), lineterm="", n=1))[2:]
    length = len(new.description)
    beyond = f"  the change is beyond what is kept of its description ({length} characters)"
    return [f"  {line}" for line in found if not line.startswith("@@")] or [beyond]


def _pin_lines(pin: ToolPin) -> list[str]:
    table = {"arguments": json.loads(pin.schema), "hints": json.loads(pin.annotations)}
    text = f"{pin.description}\n{json.dumps(table, ensure_ascii=False, indent=1, sort_keys=True)}"
    return [
        escape_hidden(line[at : at + DIFF_WIDTH])
        for line in text.split("\n")
        for at in range(0, len(line) or 1, DIFF_WIDTH)
    ]


def escape_hidden(text: str) -> str:
    """Write out what cannot be seen."""
    return "".join(
        f"\\u{{{ord(char):x}}}" if HIDDEN_CHARS.match(char) or not char.isprintable() else char
        for char in text
    )
