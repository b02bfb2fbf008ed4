"""Whether a command unpacks what nobody knows yet, by the files that it runs (class D)."""

import json
from pathlib import Path

import pytest

from daemon.tools.shell.unpacks import unpacks

FILES = {
    "Makefile": "all: test\n\ntest:\n\tpytest\n\ndeps: get\n\nget:\n\t$(TAR) -C lib -xf lib.tar\n",
    "package.json": json.dumps(
        {"scripts": {"deps": "unzip lib.zip", "test": "jest", "get": "npm run deps"}}
    ),
    "get.sh": "#!/bin/sh\nparts() {\n  unzip -q lib.zip\n}\nparts\n",
    "outer.sh": "#!/bin/sh\nsh get.sh\n",
    "make.sh": "#!/bin/sh\nmake deps\n",
    "pull.sh": "git -C lib pull\n",
    "piped.sh": "curl -s https://example.com/x | tar x\n",
    "lines.sh": "tar \\\n  -xf lib.tar\n",
    "run.py": "import subprocess\nsubprocess.run(['tar', 'xf', 'lib.tar'])\n",
    "module.py": "import zipfile\nzipfile.ZipFile('a').extractall()\n",
    "zip.sh": "python3 -m zipfile -e lib.zip lib\n",
    "plain.sh": "# unzip it by hand first\necho built  # or git pull\ntar cf out.tar src\n",
    "plain.py": "from unittest.mock import patch\n\nasked = ('patch', '/users')\nprint(patch)\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path.resolve()


@pytest.mark.parametrize(
    "line",
    [
        "make deps", "make get", "make -f Makefile deps", "make $GOAL", "npm run deps",
        "npm run get", "sh get.sh", "sh outer.sh", "sh make.sh", "sh pull.sh", "sh piped.sh",
        "sh lines.sh", "python3 run.py", "python3 module.py", "sh zip.sh", "f() { unzip a; }; f",
    ],
)  # fmt: skip
def test_what_a_script_unpacks_or_fetches_counts_as_the_commands(root: Path, line: str) -> None:
    assert unpacks(root, line)
    assert unpacks(root, ["bash", "-c", line])


@pytest.mark.parametrize(
    "line",
    ["make test", "make all", "npm test", "sh plain.sh", "python3 plain.py", "ls"],
)
def test_a_script_that_unpacks_nothing_is_no_stranger(root: Path, line: str) -> None:
    assert not unpacks(root, line)
