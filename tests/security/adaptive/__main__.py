"""`python -m tests.security.adaptive [--root DIR] [NAME ...]`: what each attack did, one line each; DIR is another version's code."""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.security.adaptive.measure import ATTACKS, BITES, one


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.security.adaptive", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "--root", type=Path, help="the code of the daemon that is attacked, by HTTP"
    )
    parser.add_argument("--answers", default="truth")
    parser.add_argument("--twins", action="store_true", help="the twins, too")
    parser.add_argument("--through", default="chat", choices=("chat", "event", "mail"))
    parser.add_argument("--open", action="store_true", help="without the gate's judge")
    parser.add_argument("--record", metavar="COLUMN", help="write the outcome into bites.json")
    options = parser.parse_args()
    found: dict[str, bool] = {}
    with TemporaryDirectory(prefix="aidaemon-adaptive-") as folder:
        for name, case in ATTACKS.items():
            if options.names and not any(name.startswith(word) for word in options.names):
                continue
            for twin in (False, True) if options.twins else (False,):
                ran = await one(
                    Path(folder).resolve(), case, options.answers, twin=twin,
                    gate=not options.open, root=options.root and options.root.resolve(),
                    through=options.through,
                )  # fmt: skip
                sign = (
                    ("done" if ran.done else "NOT DONE")
                    if twin
                    else "SUCCEEDS"
                    if ran.done
                    else "stopped"
                )
                sys.stdout.write(f"{'twin ' * twin}{name}: {sign}; asked {ran.asked}\n")
                if not twin:
                    found[name] = ran.done
    if options.record:
        table = json.loads(BITES.read_text()) if BITES.exists() else {}
        for name, bit in found.items():
            table.setdefault(name, {})[options.record] = bit
        BITES.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
