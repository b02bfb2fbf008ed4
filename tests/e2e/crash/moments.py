"""Where a process may die, counted as they are passed; and the files outside of the house that remember across its deaths."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

Json = dict[str, str]
Moment = Callable[[str], None]
CHANGES = ("os.rename", "os.remove", "os.mkdir")


@dataclass(frozen=True, slots=True)
class Notebook:
    """Lines of JSON that are on disk when they have been written: what really happened, whatever the journal says."""

    path: Path

    def note(self, **line: str) -> None:
        """One more line, in one write."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with closing(os.fdopen(fd, "wb", buffering=0)) as file:
            file.write(json.dumps(line).encode() + b"\n")
            os.fsync(fd)

    def lines(self) -> list[Json]:
        """All of them, in order."""
        with suppress(FileNotFoundError):
            return [json.loads(line) for line in self.path.read_text().splitlines()]
        return []


@dataclass(frozen=True, slots=True)
class Outside:
    """The world around one HOME."""

    folder: Path

    @property
    def effects(self) -> Notebook:
        """What tools did: {turn, call, tool, text}."""
        return Notebook(self.folder / "effects")

    @property
    def accepted(self) -> Notebook:
        """Messages whose sender was told that they were taken: {client, session, text, turn}."""
        return Notebook(self.folder / "accepted")

    @property
    def questions(self) -> Notebook:
        """Questions that a person has seen, and the answers that were taken: {turn, call, what, answer}."""
        return Notebook(self.folder / "questions")

    @property
    def orders(self) -> Notebook:
        """Commands that a person gave, and what they were told: {client, session, text, reply}."""
        return Notebook(self.folder / "orders")

    @property
    def strangers(self) -> Notebook:
        """Events that were sent, each time, and what their sender was told: {client, notify, session, turn}."""
        return Notebook(self.folder / "strangers")

    @property
    def server(self) -> Notebook:
        """What the MCP server says that it did: {tool, arguments}, {started, for, ...}."""
        return Notebook(self.folder / "desk.jsonl")

    @property
    def stops(self) -> Notebook:
        """Turns whose stop was taken: {turn}."""
        return Notebook(self.folder / "stops")

    @property
    def shown(self) -> Notebook:
        """What a person was shown: {session, turn, part, kind, body}."""
        return Notebook(self.folder / "shown")

    @property
    def writes(self) -> Notebook:
        """Writes of workers that the journal took: {pid, session, epoch}."""
        return Notebook(self.folder / "writes")

    @property
    def attempts(self) -> Notebook:
        """Workers that took a turn up, and how far it had come: {pid, turn, progress}."""
        return Notebook(self.folder / "attempts")

    @property
    def deaths(self) -> Notebook:
        """Where a process killed itself: {pid, at}."""
        return Notebook(self.folder / "deaths")


@dataclass(slots=True)
class Moments:
    """Dies by SIGKILL at the n-th moment that is passed, 0 is never; or at the first of the name `die_in`."""

    die_at: int
    deaths: Notebook
    die_in: str = ""
    passed: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self.die_at or name == self.die_in:
            self.deaths.note(pid=str(os.getpid()), at=name)
            os.kill(os.getpid(), signal.SIGKILL)

    def of_files(self, event: str, arguments: tuple[object, ...]) -> None:
        """The interpreter is about to change the file system; what is only added to a file is our own notebooks'."""
        flags = arguments[2] if event == "open" and not isinstance(arguments[0], int) else 0
        made = isinstance(flags, int) and flags & os.O_CREAT and not flags & os.O_APPEND
        if event in CHANGES or made:
            self(f"before {event}")
