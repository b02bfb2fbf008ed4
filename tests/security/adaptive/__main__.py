"""`python -m tests.security.adaptive [--root DIR] [--user] [--fence KIND] [NAME ...]`: what each attack did, one line each; DIR is another version's code."""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.security.adaptive.fences import FENCES, fence
from tests.security.adaptive.measure import ATTACKS, BITES, one
from tests.security.adaptive.ordinary_user import environment, line_as_user, owned

MODULE = "tests.security.adaptive"


def parse() -> argparse.Namespace:
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
    parser.add_argument("--fence", default="overlay", choices=FENCES)
    parser.add_argument("--user", action="store_true", help="as an ordinary user")
    return parser.parse_args()


def run_as_user() -> int:
    """The same words without this one."""
    words = ["-m", MODULE, *(word for word in sys.argv[1:] if word != "--user")]
    with owned() as home:
        return subprocess.run(
            line_as_user(words), env=environment(home), cwd=home, check=False
        ).returncode


async def main(options: argparse.Namespace) -> int:
    found: dict[str, bool] = {}
    with TemporaryDirectory(prefix="aidaemon-adaptive-") as folder, fence(options.fence):
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
    given = parse()
    sys.exit(run_as_user() if given.user else asyncio.run(main(given)))
