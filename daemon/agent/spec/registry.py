"""All agents there are: the files of HOME/agents, and the default one (B1)."""

import logging
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from daemon.agent.config import AgentConfig
from daemon.agent.spec.agent_spec import DEFAULT, AgentSpec, default_spec, parse_spec
from daemon.agent.spec.sections import NAME, NAME_RULE
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.turn_spec import Limits, TurnSpec
from daemon.settings.dotted_keys import suggest
from daemon.settings.load import config_error, read_text

log = logging.getLogger(__name__)
MAX_DEPTH, MAX_REPORTED = 20, 5


@value
class Agent:
    """What its file says, and what a turn of it is begun under."""

    spec: AgentSpec
    terms: TurnSpec
    limits: Limits

    @classmethod
    def of(cls, spec: AgentSpec, defaults: AgentConfig) -> "Agent":
        """Under this config."""
        return cls(spec, spec.turn_spec(defaults), spec.limits(defaults))


@dataclass(slots=True)
class AgentRegistry:
    """Reads a file again once it was edited; a turn keeps what it began with. A wrong file
    disturbs no other.
    """

    folder: Path
    defaults: AgentConfig
    list_tools: Callable[[], Sequence[str]] = tuple
    _cached: dict[str, tuple[tuple[int, int, int], Agent | str]] = field(default_factory=dict)
    _default: Agent = field(init=False)

    def __post_init__(self) -> None:
        self._default = Agent.of(default_spec(self.defaults), self.defaults)

    @classmethod
    def open(cls, folder: Path, defaults: AgentConfig) -> "AgentRegistry":
        """Over a folder that may be absent; what is wrong in it is logged now, and told to whoever
        asks for that agent.
        """
        specs = cls(folder, defaults)
        for line in specs.errors():
            log.warning("%s", line)
        return specs

    def names(self) -> list[str]:
        """Of all, usable or not; the default one first."""
        return list(dict.fromkeys((DEFAULT, *self.files())))

    def files(self) -> list[str]:
        """Of those that have a file."""
        return sorted(path.stem for path in self.folder.glob("*.toml") if path.is_file())

    def get(self, name: str) -> AgentSpec:
        """The agent as its file says now. Raises ConfigError."""
        return self.find(name).spec

    def find(self, name: str) -> Agent:
        """The agent as its file says now, all that it sets to work included. Raises ConfigError:
        file, key, what was expected.
        """
        agent = self._load(name)
        if agent.spec.composite and (faults := self._check_members(agent.spec, (name,), {})):
            raise config_error(self._path(name), faults)
        return agent

    def errors(self) -> list[str]:
        """Everything that is wrong with the files, a line each."""
        return [line for name in self.names() for line in self._error_of(name).splitlines()]

    def warnings(self) -> list[str]:
        """What is accepted, but will not do what was probably meant (C3)."""
        usable = (name for name in self.names() if not self._error_of(name))
        return [f"{self._path(name)}: {line}" for name in usable for line in self.warnings_of(name)]

    def warnings_of(self, name: str) -> list[str]:
        """Of one agent that can be used."""
        spec, tools = self.get(name), self.list_tools()
        exact = [one for one in tools if "*" not in one]
        return spec.loop.warnings() + [
            f"{key}: there is no tool {tool!r}{suggest(tool, exact)}"
            for key, tool in spec.tool_references()
            if tools and not any(fnmatchcase(one, tool) or fnmatchcase(tool, one) for one in tools)
        ]

    def set_defaults(self, defaults: AgentConfig) -> None:
        """From now on this is what the config says; who works already keeps what it began with."""
        self.defaults = defaults
        self._default = Agent.of(default_spec(defaults), defaults)
        self._cached.clear()

    def set_tools(self, list_tools: Callable[[], Sequence[str]]) -> None:
        """These are the tools there are, by name; `SERVER__*` stands for any. An agent that names
        another one is warned about, now and whenever it is chosen.
        """
        self.list_tools = list_tools
        for line in self.warnings():
            log.warning("%s", line)

    def _error_of(self, name: str) -> str:
        try:
            self.get(name)
        except ConfigError as error:
            return str(error)
        return ""

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.toml"

    def _load(self, name: str) -> Agent:
        """What the file says, without a look at the agents it names."""
        stamp = None
        if NAME.fullmatch(name):
            with suppress(OSError):
                found = os.stat(f"{self.folder}/{name}.toml")  # noqa: PTH116 - twice as fast
                if not (stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode)):
                    stamp = found.st_mtime_ns, found.st_size, found.st_ino
        if stamp is None:  # no file, or one that may take for ever to read
            self._cached.pop(name, None)
            if name == DEFAULT:
                return self._default
            if name in self.files():
                raise config_error(
                    self._path(name), [("", f"{NAME_RULE}, as the file's name before .toml")]
                )
            raise ConfigError(unknown_agent(name, self.names()))
        cached = self._cached.get(name)
        if cached is None or cached[0] != stamp:
            cached = self._cached[name] = stamp, self._read(name)
        if isinstance(cached[1], str):
            raise ConfigError(cached[1])
        return cached[1]

    def _read(self, name: str) -> Agent | str:
        """The agent, or what is wrong with its file."""
        path = self._path(name)
        try:
            spec = parse_spec(read_text(path), path)
        except ConfigError as error:
            return str(error)
        if name == DEFAULT and "loop" not in spec.model_fields_set:
            spec = spec.model_copy(update={"loop": self.defaults.loop})
        return Agent.of(spec, self.defaults)

    def _check_members(
        self, spec: AgentSpec, above: Sequence[str], known: dict[str, list[str]]
    ) -> list[tuple[str, str]]:
        """What is wrong with the agents that a composite sets to work, by the key that names them;
        each is looked at once.
        """
        faults: list[tuple[str, str]] = []
        for key, name in spec.composite.agent_references() if spec.composite else ():
            if name in above:
                path = " -> ".join((*above, name))
                faults.append((key, f"{name} would work for itself: {path}"))
            elif len(above) > MAX_DEPTH:
                wanted = f"expected no more than {MAX_DEPTH} agents below one another"
                faults.append((key, wanted))
            else:
                if name not in known:
                    try:
                        inner = self._check_members(self._load(name).spec, (*above, name), known)
                        known[name] = [
                            f"{name} cannot be used: {at}: {fault}"
                            for at, fault in inner[:MAX_REPORTED]
                        ]
                    except ConfigError as error:
                        known[name] = ["; ".join(str(error).splitlines())]
                faults += [(key, fault) for fault in known[name]]
        return faults


def unknown_agent(name: str, names: Sequence[str]) -> str:
    """There is none of that name; those there are, and the nearest."""
    asked, fit = name[:100], [known for known in names if NAME.fullmatch(known)]
    return f"there is no agent {asked!r}; there are: {', '.join(fit)}{suggest(asked, fit)}"
