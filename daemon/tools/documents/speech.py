"""What is said in a recording, by a model on this machine (G1): the extra `voice` and `aidaemon
model pull voice`. A child process in the sandbox reads it.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from daemon.core.errors import UnreadableDocument
from daemon.tools.documents.reader import NO_SANDBOX
from daemon.tools.shell.process import exchange
from daemon.tools.shell.sandbox import Sandbox

READ_SCRIPT = Path(__file__).with_name("speech_read.py")
READ_S = 80.0
TOO_LONG = "it is too long to be written down on this machine"
BEGINS = (b"fLaC", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\x1a\x45\xdf\xa3")
SPOKEN_KINDS = ("voice", "audio")


def is_recording(data: bytes, kind: str) -> bool:
    """It begins like one; what may be something else is one where the platform calls it so."""
    is_sound = data[:4] == b"OggS" or (data[:4] == b"RIFF" and data[8:12] == b"WAVE")
    may_be = data.startswith(BEGINS) or data[4:8] == b"ftyp"
    return is_sound or (may_be and kind in SPOKEN_KINDS)


@dataclass(slots=True)
class SpeechReader:
    """One recording at a time: the model takes some hundred megabytes. `sizes`: of the files that
    `model` holds; `find_missing`: what to run so that it is there; "" for nothing.
    """

    sandbox: Sandbox
    model: Path
    sizes: Sequence[int]
    find_missing: Callable[[], str]
    language: str = ""
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def transcribe(self, data: bytes, name: str) -> str:
        """The words. Raises UnreadableDocument."""
        if missing := self.find_missing():
            raise UnreadableDocument(f"it is not heard: {missing}")
        if self.sandbox.kind == "none":
            raise UnreadableDocument(NO_SANDBOX)
        sizes = ",".join(map(str, self.sizes))
        command = [sys.executable, "-I", str(READ_SCRIPT), str(self.model), sizes, self.language]
        async with self._alone:
            wrapped = self.sandbox.wrap_own(command, READ_SCRIPT, self.model)
            output = await exchange(wrapped, data, READ_S)
        if not output:
            raise UnreadableDocument(TOO_LONG)
        found = json.loads(output)
        if why := found.get("why"):
            raise UnreadableDocument(why)
        return found["text"]


def is_installed() -> bool:
    """The extra `voice` is there."""
    return bool(find_spec("faster_whisper"))
