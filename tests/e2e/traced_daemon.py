"""`aidaemon` under `sys.setprofile`: SIGUSR1 begins to count our functions in all threads, SIGUSR2 writes them to $TRACE_FILE.

Comprehensions, lambdas and module bodies are left out.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

from daemon.__main__ import main

ROOT = Path(__file__).parents[2]
OURS = tuple(f"{ROOT / name}{os.sep}" for name in ("daemon", "channels", "memory"))


class Trace:
    """The distinct functions of ours that were called while it counts."""

    def __init__(self) -> None:
        self.counting = False
        self.seen: set[CodeType] = set()

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        """Note the function of every call."""
        if self.counting and event == "call":
            self.seen.add(frame.f_code)

    def begin(self, *_: object) -> None:
        """Start to count, from nothing."""
        self.seen.clear()
        self.counting = True

    def write(self, *_: object) -> None:
        """Stop, and write `file:line name` of each function, as a JSON list."""
        self.counting = False
        ours = [
            code
            for code in list(self.seen)
            if code.co_filename.startswith(OURS) and not code.co_name.startswith("<")
        ]
        names = sorted(
            f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno} {code.co_name}"
            for code in ours
        )
        target = Path(os.environ["TRACE_FILE"])
        target.with_suffix(".part").write_text(json.dumps(names))
        target.with_suffix(".part").rename(target)


if __name__ == "__main__":
    trace = Trace()
    signal.signal(signal.SIGUSR1, trace.begin)
    signal.signal(signal.SIGUSR2, trace.write)
    threading.setprofile(trace.profile)
    sys.setprofile(trace.profile)
    sys.exit(main())
