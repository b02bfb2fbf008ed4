"""Which tests show which clause of each required row: `python -m tests.rows [ROW ...]`. Exit code 1 when one has none.

`clauses/` has the clauses in the words of the row (daemon/docs/requirements.md), each with its tests, or with why it comes
later. A test counts when it runs the whole daemon: those in `e2e` run it as a process of its own, the others in the test's.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).parent
REQUIREMENTS = HERE.parent / "daemon" / "docs" / "requirements.md"
CLAUSES = HERE / "clauses"
ROW = re.compile(r"^\| ([A-H]\d+) \| (.*) \|$", re.MULTILINE)
WORD = re.compile(r"\w{4,}")
PROCESS = "e2e/"
WHOLE_DAEMON = (PROCESS, "behaviour/", "delivery/", "security/", "contract/", "bench/")

Table = Mapping[str, Mapping[str, Sequence[str] | str]]
"""Row -> clause -> its tests, or why it comes later."""


@dataclass(frozen=True)
class Rows:
    """The required rows, what `clauses/` says of them, and the tests there are."""

    texts: Mapping[str, str]
    table: Table
    tests: frozenset[str]

    @cached_property
    def faults(self) -> list[str]:
        """What is wrong with the table: words of a row in no clause, clauses in no row, tests that are none."""
        unknown = [f"{row}: there is no such row" for row in self.table if row not in self.texts]
        return unknown + [fault for row in self.texts for fault in self._check(row)]

    def _check(self, row: str) -> Iterator[str]:
        text = self.texts[row]
        clauses = self.table.get(row, {})
        for clause in sorted(clauses, key=len, reverse=True):
            if clause not in text:
                yield f"{row}: no words of the row: {clause}"
            text = text.replace(clause, " ", 1)
            shown = clauses[clause]
            for test in [] if isinstance(shown, str) else shown:
                if test not in self.tests:
                    yield f"{row}: there is no test {test}"
                elif not test.startswith(WHOLE_DAEMON):
                    yield f"{row}: not through the whole daemon: {test}"
        if left := WORD.findall(text):
            yield f"{row}: in no clause: {' '.join(left)}"

    def missing(self, row: str) -> list[str]:
        """Its clauses that have no test and do not come later."""
        return [clause for clause, shown in self.table.get(row, {}).items() if not shown]

    def later(self, row: str) -> list[str]:
        """Its clauses that come later."""
        return [clause for clause, shown in self.table[row].items() if isinstance(shown, str)]

    def is_done(self, row: str) -> bool:
        """Each of its clauses has a test."""
        return row in self.table and not (self.missing(row) or self.later(row))

    def render(self, row: str) -> Iterator[str]:
        """The row's lines of the report."""
        if row not in self.table:
            yield f"{row}: no clauses yet"
            return
        state = "done" if self.is_done(row) else "missing" if self.missing(row) else "in part later, or not of the daemon"
        yield f"{row}: {state}"
        for clause, shown in self.table[row].items():
            yield f"    {clause}"
            if isinstance(shown, str):
                yield f"        {shown}"
            yield from (f"        {test}" for test in (shown if isinstance(shown, list) else []))
            if not shown:
                yield "        NO TEST"

    def summarize(self) -> str:
        """How much is shown."""
        clauses = [(row, clause) for row in self.table for clause in self.table[row]]
        shown = [self.table[row][clause] for row, clause in clauses]
        tested = [one for one in shown if one and not isinstance(one, str)]
        by_process = [one for one in tested if any(test.startswith(PROCESS) for test in one)]
        done = [row for row in self.texts if self.is_done(row)]
        later = [row for row in self.table if self.later(row) and not self.missing(row)]
        return (
            f"{len(done)} of {len(self.texts)} rows done, {len(later)} with clauses that come later ({' '.join(later)});"
            f" {len(tested)} of {len(clauses)} clauses have tests, {len(by_process)} through a process of its own"
        )


def list_tests(path: Path) -> Iterator[str]:
    """The tests of one file, as `e2e/test_chat.py::test_name`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{path.relative_to(HERE).as_posix()}::{node.name}"


def read_rows() -> Rows:
    """As they stand today."""
    tests = frozenset(name for path in HERE.rglob("test_*.py") for name in list_tests(path))
    files = [tomllib.loads(path.read_text()) for path in sorted(CLAUSES.glob("*.toml"))]
    table: Table = {row: clauses for file in files for row, clauses in file.items()}
    return Rows(dict(ROW.findall(REQUIREMENTS.read_text())), table, tests)


def main(only: Iterable[str]) -> int:
    """Print the report, of all rows or of these."""
    rows, wanted = read_rows(), set(only)
    for row in rows.texts:
        if not wanted or row in wanted:
            print("\n".join(rows.render(row)))
    print(rows.summarize())
    missing = [row for row in rows.texts if row not in rows.table or rows.missing(row)]
    for line in [*rows.faults, *([f"no test names: {' '.join(missing)}"] if missing else [])]:
        print(line, file=sys.stderr)
    return 1 if missing or rows.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
