"""All agents there are: the files of HOME/agents, and the default one (B1)."""

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from daemon.agent.config import AgentConfig
from daemon.agent.spec import DEFAULT, AgentSpec, default_spec, parse_spec
from daemon.agent.specs.parts import NAME, UNFIT
from daemon.core.errors import ConfigError
from daemon.core.toml import read, refusal

log = logging.getLogger(__name__)
DEEPEST, MOST_TOLD = 20, 5
Stamp = tuple[int, int, int]
Fault = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """A file as it was read: its spec, or what is wrong with it."""

    stamp: Stamp
    spec: AgentSpec | None
    fault: str = ""


@dataclass(slots=True)
class Specs:
    """Reads a file again once it was edited; a turn keeps what it began with. A wrong file disturbs no other."""

    folder: Path
    defaults: AgentConfig
    tools: tuple[str, ...] = ()
    _kept: dict[str, Kept] = field(default_factory=dict)
    _usual: AgentSpec = field(init=False)

    def __post_init__(self) -> None:
        self._usual = default_spec(self.defaults)

    @classmethod
    def open(cls, folder: Path, defaults: AgentConfig) -> "Specs":
        """Over a folder that may be absent; what is wrong in it is logged now, and told to whoever asks for that agent."""
        specs = cls(folder, defaults)
        for line in specs.faults():
            log.warning("%s", line)
        return specs

    def names(self) -> list[str]:
        """Of all, usable or not; the default one first."""
        return list(dict.fromkeys((DEFAULT, *self.files())))

    def files(self) -> list[str]:
        """Of those that have a file."""
        return sorted(path.stem for path in self.folder.glob("*.toml") if path.is_file())

    def get(self, name: str) -> AgentSpec:
        """The agent as its file says now, all that it sets to work included. Raises ConfigError: file, key, what was expected."""
        spec = self._own(name)
        faults = list(self._members(spec, (name,), {}))
        if faults:
            raise refusal(self._path(name), faults)
        return spec

    def faults(self) -> list[str]:
        """Everything that is wrong with the files, a line each."""
        return [line for name in self.names() for line in self._fault_of(name).splitlines()]

    def warnings(self) -> list[str]:
        """What is accepted, but will not do what was probably meant (C3)."""
        usable = (name for name in self.names() if not self._fault_of(name))
        return [f"{self._path(name)}: {line}" for name in usable for line in self.warnings_of(name)]

    def warnings_of(self, name: str) -> list[str]:
        """Of one agent that can be used."""
        spec = self.get(name)
        unknown_tools = [(key, tool) for key, tool in spec.tools_meant() if self.tools and not _fits(tool, self.tools)]
        return spec.warnings() + [f"{key}: there is no tool {tool!r}{_nearest(tool, self.tools)}" for key, tool in unknown_tools]

    def take(self, defaults: AgentConfig) -> None:
        """From now on this is what the config says; who works already keeps what it began with."""
        self.defaults, self._usual = defaults, default_spec(defaults)
        self._kept.clear()

    def knows(self, tools: Sequence[str]) -> None:
        """These are the tools there are; who speaks of another one is warned about, now and whenever that agent is chosen."""
        self.tools = tuple(tools)
        for line in self.warnings():
            log.warning("%s", line)

    def _fault_of(self, name: str) -> str:
        try:
            self.get(name)
        except ConfigError as error:
            return str(error)
        return ""

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.toml"

    def _own(self, name: str) -> AgentSpec:
        """What the file says, without a look at the agents it names."""
        stamp = _stamp(f"{self.folder}/{name}.toml") if NAME.fullmatch(name) else None
        if stamp is None:
            self._kept.pop(name, None)
            if name == DEFAULT:
                return self._usual
            if name in self.files():
                raise refusal(self._path(name), [("", f"{UNFIT}, as the file's name before .toml")])
            raise ConfigError(unknown(name, self.names()))
        kept = self._kept.get(name)
        if kept is None or kept.stamp != stamp:
            kept = self._kept[name] = self._read(name, stamp)
        if kept.spec is None:
            raise ConfigError(kept.fault)
        return kept.spec

    def _read(self, name: str, stamp: Stamp) -> Kept:
        path = self._path(name)
        try:
            spec = parse_spec(read(path), path)
        except ConfigError as error:
            return Kept(stamp, None, str(error))
        if name == DEFAULT and "loop" not in spec.model_fields_set:
            spec = spec.model_copy(update={"loop": self.defaults.loop})
        return Kept(stamp, spec)

    def _members(self, spec: AgentSpec, above: Sequence[str], known: dict[str, list[str]]) -> Iterator[Fault]:
        """What is wrong with the agents that a composite sets to work, by the key that names them; each is looked at once."""
        for key, name in spec.composite.named() if spec.composite else ():
            if name in above:
                yield key, f"{name} would work for itself: {' -> '.join((*above, name))}"
                continue
            if len(above) > DEEPEST:
                yield key, f"expected no more than {DEEPEST} agents below one another"
                continue
            if name not in known:
                known[name] = self._within(name, above, known)
            yield from ((key, fault) for fault in known[name])

    def _within(self, name: str, above: Sequence[str], known: dict[str, list[str]]) -> list[str]:
        try:
            inner = list(islice(self._members(self._own(name), (*above, name), known), MOST_TOLD))
        except ConfigError as error:
            return ["; ".join(str(error).splitlines())]
        return [f"{name} cannot be used: {at}: {fault}" for at, fault in inner]


def unknown(name: str, names: Sequence[str]) -> str:
    """There is none of that name; those there are, and the nearest."""
    asked, fit = name[:100], [known for known in names if NAME.fullmatch(known)]
    return f"there is no agent {asked!r}; there are: {', '.join(fit)}{_nearest(asked, fit)}"


def _nearest(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _fits(pattern: str, names: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - asked for every turn, and twice as fast
    except OSError:
        return None
    if stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode):  # to read these may take for ever
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
