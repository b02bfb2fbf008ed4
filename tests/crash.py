"""The kill suites by hand: `python -m tests.crash [--full] [PYTEST ARGUMENT ...]`. `--full` kills at every moment there is."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def main(words: list[str]) -> int:
    """Run them; the exit code of pytest."""
    if "--full" in words:
        os.environ["AIDAEMON_TEST_FULL"] = "1"
    files = sorted(str(file) for file in (HERE / "e2e").rglob("test_crash_*.py"))
    crowds = sorted(str(file) for file in (HERE / "e2e" / "channels").glob("test_[cm][ro]*.py"))
    more = [word for word in words if word != "--full"]
    return int(pytest.main(["-n", "2", "--timeout", "900", *files, *crowds, *more]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
