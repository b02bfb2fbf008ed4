"""Server-sent events, whichever way their bytes are cut."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream."""

    data: str
    event: str = ""
    id: str = ""


@dataclass(slots=True)
class EventStream:
    """Puts events together from bytes. What no empty line ends is not an event yet, and never is if the stream stops there."""

    _rest: bytearray = field(default_factory=bytearray)
    _after_cr: bool = False
    _data: list[str] = field(default_factory=list)
    _event: str = ""
    _id: str = ""
    _began: bool = False

    def feed(self, received: bytes) -> list[ServerEvent]:
        """The events that these bytes complete."""
        if self._after_cr and received.startswith(b"\n"):
            received, self._after_cr = received[1:], False
        if not received:
            return []
        self._after_cr = received.endswith(b"\r")
        if b"\n" not in received and b"\r" not in received:
            self._rest += received
            return []
        lines = bytes(self._rest + received).splitlines(keepends=True)
        self._rest = bytearray() if lines[-1].endswith((b"\n", b"\r")) else bytearray(lines.pop())
        return [event for line in lines if (event := self._line(line))]

    def _line(self, raw: bytes) -> ServerEvent | None:
        line = raw.rstrip(b"\r\n").decode("utf-8", "replace")
        if not self._began:
            self._began, line = True, line.removeprefix("\ufeff")
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self._id = value
        return None

    def _complete(self) -> ServerEvent | None:
        event = ServerEvent("\n".join(self._data), self._event, self._id) if self._data else None
        self._data, self._event, self._id = [], "", ""
        return event
