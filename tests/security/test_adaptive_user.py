"""Attacks on what runs on the host, when the daemon's user is an ordinary one: none leaves something (issue 28). The kinds of
sandbox and layer are those of `fences.py`; a daemon that is root runs nothing by landlock alone, so only a user is tried there.
`python -m tests.security.adaptive --user --fence landlock D G H I J` tells it for all of them.
"""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.full_form import FULL
from tests.security.adaptive.fences import fence
from tests.security.adaptive.measure import ATTACKS, Ran, one
from tests.security.adaptive.ordinary_user import environment, line_as_user, owned

# Where most daemons run of all kinds, elsewhere those that the sandbox or the layer holds off; each third, or with
# AIDAEMON_TEST_FULL=1 all.
KINDS = {"overlay": "DGHIJ", "copy": "H", "read-only": "H", "landlock": "HIJ"}
LONG = ("D3 ", "D12 ", "H11 ")  # each takes seconds, as root's own suite tells of it
EVERY, LEAST = 3, 7
AT_ONCE = (("overlay",), ("copy", "read-only", "landlock"))  # each in a child
CODE = "import sys; from tests.security.test_adaptive_user import main; main(sys.argv[1:])"


async def attack(home: Path, name: str) -> list[Ran]:
    """Those that are quick."""
    quick = [case for case in ATTACKS.values() if not case.slow and not case.name.startswith(LONG)]
    chosen = [case for case in quick if case.kind in KINDS[name]][:: 1 if FULL else EVERY]
    with fence(name):
        return [await one(home, case, "truth") for case in chosen]


def main(names: Sequence[str]) -> None:
    """In the child: who it is, how many ran, which had their way."""
    told: dict[str, object] = {"user": os.geteuid()}
    for name in names:
        with TemporaryDirectory(prefix="aidaemon-user-") as folder:
            ran = asyncio.run(attack(Path(folder).resolve(), name))
        told[name] = {"ran": len(ran), "done": [it.name for it in ran if it.done]}
    sys.stdout.write(json.dumps(told))


async def ask_child(names: Sequence[str]) -> dict[str, Any]:
    """What it told, and whom it ran as."""
    with owned() as home:
        child = await asyncio.create_subprocess_exec(
            *line_as_user(["-c", CODE, *names]),
            env=environment(home), cwd=home, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, _ = await child.communicate()
    assert child.returncode == 0
    return json.loads(said)


async def test_no_attack_leaves_what_runs_on_the_host_of_an_ordinary_user() -> None:
    told = await asyncio.gather(*map(ask_child, AT_ONCE))
    assert all(one.pop("user") for one in told)
    found = {name: of for one in told for name, of in one.items()}
    assert found.keys() == KINDS.keys()
    assert all(of["ran"] >= LEAST for of in found.values())
    assert not {name: of["done"] for name, of in found.items() if of["done"]}
