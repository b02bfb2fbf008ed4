"""The process that reads mails, with a fault: a certain mail ends it. Of the real one no such mail is known."""

import json
import os
import sys
from pathlib import Path

POISON = b"ends the reader"


def main() -> None:
    """Answer as the real one does, but for the mail that ends it."""
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from channels.email.parse_child import read_mail  # its path is known only now

    while line := sys.stdin.buffer.readline():
        raw, structure = (sys.stdin.buffer.read(int(size)) for size in line.split())
        if POISON in raw:
            os._exit(1)
        answer = json.dumps(read_mail(raw, sys.argv[1], structure.decode("latin-1")))
        sys.stdout.buffer.write(answer.encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
