"""What a server may offer: its tools as they were when it was first met, or as the owner has approved them since (A22)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from daemon.tools.mcp.session import Definition, as_json

KIND = "mcp"
STORED_CHARS = 20_000
CODE = 8


@dataclass(frozen=True, slots=True)
class Pin:
    """A definition as it is kept: `digest` is of the whole, the description may be cut."""

    definition: Definition
    digest: str

    @classmethod
    def of(cls, definition: Definition) -> "Pin":
        """Fit to be kept."""
        return cls(replace(definition, description=definition.description[:STORED_CHARS]), definition.digest)


@dataclass(frozen=True, slots=True)
class Pins:
    """Of one server: what holds, and what waits for the owner, each by the server's own name of the tool. `told` is the code of
    what the owner has been told of last; `salt` is chance, so that no server can make two offers of the same code.
    """

    approved: Mapping[str, Pin] = field(default_factory=dict)
    waiting: Mapping[str, Pin] = field(default_factory=dict)
    told: str = ""
    salt: str = field(default="", repr=False)

    @property
    def code(self) -> str:
        """What stands for exactly that which waits; "" when nothing does."""
        return code_of(self.waiting.values(), self.salt)


@dataclass(frozen=True, slots=True)
class Looked:
    """What a list of tools comes to. `usable` and `off` are in the server's order; `off` are changed or new."""

    pins: Pins
    usable: tuple[Definition, ...] = ()
    off: tuple[Pin, ...] = ()
    first: bool = False


def look(pins: Pins | None, offered: Sequence[Definition]) -> Looked:
    """A server that was never met is believed; later each tool must be what it was, and a new one waits. One that is gone is
    remembered, so that it can come back as it was, but not as another.
    """
    if pins is None:
        known = Pins({one.name: Pin.of(one) for one in offered})
        return Looked(known, tuple(offered), first=True)
    usable = tuple(one for one in offered if _as_approved(one, pins))
    waiting = {one.name: Pin.of(one) for one in offered if not _as_approved(one, pins)}
    off = tuple(pins.approved.get(name, pin) for name, pin in waiting.items())
    return Looked(replace(pins, waiting=waiting), usable, off)


def approve(pins: Pins, names: Iterable[str]) -> Pins:
    """These tools hold from now on as they wait."""
    said = {name: pin for name, pin in pins.waiting.items() if name in set(names)}
    left = {name: pin for name, pin in pins.waiting.items() if name not in said}
    return replace(pins, approved={**pins.approved, **said}, waiting=left)


def code_of(waiting: Iterable[Pin], salt: str) -> str:
    """A yes is bound to this, so that it cannot be a yes to what came after it was read."""
    digests = sorted(pin.digest for pin in waiting)
    return sha256("".join((salt, *digests)).encode()).hexdigest()[:CODE] if digests else ""


def _as_approved(definition: Definition, pins: Pins) -> bool:
    pin = pins.approved.get(definition.name)
    return pin is not None and pin.digest == definition.digest


def written(pins: Pins) -> str:
    """As it is kept in the journal."""
    return as_json({"approved": _rows(pins.approved), "waiting": _rows(pins.waiting), "told": pins.told, "salt": pins.salt})


def read(text: str) -> Pins:
    """What was kept."""
    kept = json.loads(text)
    return Pins(_pins(kept["approved"]), _pins(kept["waiting"]), kept["told"], kept.get("salt", ""))


def _rows(pins: Mapping[str, Pin]) -> dict[str, list[str]]:
    return {
        name: [pin.digest, pin.definition.description, pin.definition.schema, pin.definition.annotations]
        for name, pin in pins.items()
    }


def _pins(rows: Mapping[str, Sequence[str]]) -> dict[str, Pin]:
    return {
        name: Pin(Definition(name, description, schema, annotations), digest)
        for name, (digest, description, schema, annotations) in rows.items()
    }
