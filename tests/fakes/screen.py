"""A terminal window with a real process in it: what stands on its screen, and keys for it."""

import asyncio
import codecs
import fcntl
import os
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.born import Born, bear

ROOT = Path(__file__).parents[2]
ROWS = 300
CONTROL = re.compile(
    r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b.|[\r\n\x08]|[^\x1b\r\n\x08]"
)
UNFINISHED = re.compile(r"\x1b(\[[0-9;?]*|\][^\x07]*)?$")


@dataclass(slots=True)
class Screen:
    """As much of a terminal as our programs use; it is tall enough never to scroll."""

    lines: list[list[str]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    _rest: str = ""

    def feed(self, text: str) -> None:
        """Draw what a program wrote."""
        text, self._rest = self._rest + text, ""
        if open_end := UNFINISHED.search(text):
            text, self._rest = text[: open_end.start()], open_end.group()
        for found in CONTROL.finditer(text):
            if found[2]:
                self._control(found[2], found[1])
            elif found[0][0] != "\x1b":
                self._put(found[0])

    def text(self) -> str:
        """What can be read now."""
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip()

    def _control(self, what: str, numbers: str) -> None:
        count = int(numbers) if numbers.isdigit() else 1
        match what:
            case "A":
                self.row = max(self.row - count, 0)
            case "B":
                self.row += count
            case "C":
                self.column += count
            case "D":
                self.column = max(self.column - count, 0)
            case "K":
                self._grow()
                del self.lines[self.row][self.column :]
            case "J":
                self._grow()
                del self.lines[self.row][self.column :], self.lines[self.row + 1 :]
            case _:
                return

    def _put(self, char: str) -> None:
        match char:
            case "\n":
                self.row += 1
            case "\r":
                self.column = 0
            case "\x08":
                self.column = max(self.column - 1, 0)
            case _:
                self._grow()
                line = self.lines[self.row]
                line.extend(" " * (self.column + 1 - len(line)))
                line[self.column] = char
                self.column += 1

    def _grow(self) -> None:
        self.lines.extend([] for _ in range(self.row + 1 - len(self.lines)))


@dataclass(slots=True)
class Window:
    """A process on a terminal of its own."""

    process: Born
    terminal: int
    screen: Screen = field(default_factory=Screen)
    raw: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    async def sees(self, *texts: str, within: float = 30) -> str:
        """Wait until all of them stand on the screen; the screen then."""
        return await self._until(lambda shown: all(text in shown for text in texts), texts, within)

    async def loses(self, *texts: str, within: float = 30) -> str:
        """Wait until none of them stands on the screen any more; the screen then."""
        return await self._until(
            lambda shown: not any(text in shown for text in texts), texts, within
        )

    async def _until(
        self, true: Callable[[str], bool], texts: tuple[str, ...], within: float
    ) -> str:
        try:
            async with asyncio.timeout(within):
                while not true(self.screen.text()):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{texts} in vain; the screen:\n{self.screen.text()}") from None
        return self.screen.text()

    def types(self, keys: str) -> None:
        """Press these keys."""
        os.write(self.terminal, keys.encode())

    async def ends(self, within: float = 30) -> int:
        """Wait for the process to leave; its exit code."""
        async with asyncio.timeout(within):
            return await self.process.wait()

    async def kill(self) -> None:
        """kill -9."""
        os.kill(self.process.pid, signal.SIGKILL)
        await self.ends()

    def read(self) -> None:
        """Take in what the process wrote."""
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # the other side is closed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.terminal)
        text = self._decoder.decode(data)
        self.raw += text
        self.screen.feed(text)
        self._changed.set()


@asynccontextmanager
async def window(
    *words: str, columns: int = 80, env: Mapping[str, str] | None = None
) -> AsyncIterator[Window]:
    """`aidaemon WORDS` in a window of so many columns."""
    terminal, inside = os.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")
    }  # the window has its own
    surroundings = {
        **inherited,
        "TERM": "xterm",
        "PYTHONPATH": str(ROOT),
        "LANG": "C.UTF-8",
        **(env or {}),
    }
    process = await bear(words, (inside, inside, inside), surroundings, terminal=True)
    os.close(inside)
    shown = Window(process, terminal)
    loop = asyncio.get_running_loop()
    loop.add_reader(terminal, shown.read)
    try:
        yield shown
    finally:
        process.kill()
        await process.wait()
        loop.remove_reader(terminal)
        os.close(terminal)
