"""`python -m tests.security [--full] [SECTION ...]`: what a stranger can do, and what the owner is asked, in figures.

Each is what the tests beside it assert. The exit code is 1 when one is not as it must be.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.security.figures import Figure, exit_code, table
from tests.security.sections import SECTIONS


def main(words: Sequence[str]) -> int:
    """Run the sections that were named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.security", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument(
        "--full", action="store_true", help="every section; so it is when none is named"
    )
    options = parser.parse_args(words)
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(
            f"there is no section {', '.join(sorted(unknown))}; sections: {', '.join(SECTIONS)}"
        )
    figures: list[Figure] = []
    names = (not options.full and options.sections) or list(SECTIONS)
    with TemporaryDirectory(prefix="aidaemon-security-") as name:
        try:
            asyncio.run(_run(Path(name).resolve(), names, figures))
        finally:  # a section that fails takes no figures of the others along
            print(table(figures), flush=True)
    return exit_code(figures)


async def _run(place: Path, names: Sequence[str], figures: list[Figure]) -> None:
    for name in names:
        began = perf_counter()
        figures += await SECTIONS[name](place / name)
        print(f"  {name}: done in {perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
