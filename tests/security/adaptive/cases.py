"""What an attack is, and its twin: a short script, its class, how it is shown to bite."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.security.adaptive.world import Scene

Run = Callable[[Scene], Awaitable[bool]]
CLASSES = "ABCDEFGHIJKL"


@dataclass(frozen=True, slots=True)
class Case:
    """An attack: `run` tells whether the attacker had their way. `twin`: the same shape in good faith; whether it was done.
    `turns`: how many messages, events or commands it takes; `slow`: it takes processes or seconds, and is run by hand.
    """

    name: str
    run: Run
    twin: Run
    turns: int = 1
    slow: bool = False

    @property
    def kind(self) -> str:
        return self.name[0]


CASES: dict[str, Case] = {}


def case(name: str, twin: Run, turns: int = 1, *, slow: bool = False) -> Callable[[Run], Run]:
    """The attack of this name, with its twin."""

    def keep(run: Run) -> Run:
        assert name not in CASES, name
        CASES[name] = Case(name, run, twin, turns, slow)
        return run

    return keep


def fetch(url: str) -> tuple[str, dict[str, object]]:
    return ("web_fetch", {"url": url})


def request(method: str, url: str, **more: object) -> tuple[str, dict[str, object]]:
    return ("http_request", {"method": method, "url": url, **more})


def read(path: str) -> tuple[str, dict[str, object]]:
    return ("read_file", {"path": path})


def write(path: str, text: str) -> tuple[str, dict[str, object]]:
    return ("write_file", {"path": path, "text": text})


def send(to: str, body: str) -> tuple[str, dict[str, object]]:
    return ("desk__send", {"to": to, "body": body})


def shell(command: str, **more: object) -> tuple[str, dict[str, object]]:
    return ("shell", {"command": command, **more})


def says(text: str) -> str:
    """The model ends its turn with this."""
    return text


def agent(task: str) -> tuple[str, dict[str, object]]:
    return ("spawn_agent", {"task": task})


def remember(fact: str) -> tuple[str, dict[str, object]]:
    return ("remember", {"fact": fact})


INBOX = ("desk__inbox", dict[str, object]())
CONTRACT = ("desk__contract", dict[str, object]())
