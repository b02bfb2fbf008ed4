"""Writes down what is said: `python -I speech_read.py MODEL SIZES LANGUAGE < recording > JSON`.

Runs as a child process that imports nothing of ours: recordings from strangers are read with little
time, bounded memory and no right to write. SIZES: of the files that MODEL holds, in bytes.
"""

import io
import json
import mmap
import resource
import sys
from pathlib import Path

from av.error import FFmpegError
from faster_whisper import WhisperModel

MEMORY_BYTES, CPU_S = 6_000_000_000, 400
FILES = ("model.bin", "tokenizer.json", "config.json", "vocabulary.txt")


def read(recording: bytes, model: Path, sizes: list[int], language: str) -> dict[str, object]:
    """The words, and how long it is in seconds; or why there are none."""
    with model.open("rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    parts, place = dict[str, bytes](), 0
    for name, size in zip(FILES, sizes, strict=True):
        parts[name] = held[place : place + size]
        place += size
    held.close()
    whisper = WhisperModel("", device="cpu", compute_type="int8", files=parts)
    del parts
    try:
        segments, about = whisper.transcribe(
            io.BytesIO(recording), language=language or None, condition_on_previous_text=False
        )
        words = [one.text.strip() for one in segments if one.no_speech_prob < 0.9]
    except (FFmpegError, ValueError, IndexError):
        return {"why": "it is damaged, or no recording"}
    text = " ".join(words).strip()
    return {"text": text, "seconds": about.duration} if text else {"why": "nothing is said in it"}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    for forbidden in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(forbidden, (0, 0))
    place, told, spoken = sys.argv[1:]
    sizes = [int(one) for one in told.split(",")]
    sys.stdout.write(json.dumps(read(sys.stdin.buffer.read(), Path(place), sizes, spoken)))
