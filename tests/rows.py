"""Which tests show which row of what was asked for: `python -m tests.rows`. Exit code 1 when a row has none.

A test names its rows in its name (`test_a17_...`) or its docstring ("A17"); the docstring of a file speaks for all tests in it.
"K13" and `test_b5_13_...` are no rows: they name an entry of the table of failures.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"(?<![A-Za-z0-9#])([A-F])(\d{1,2})(?![\d.]| #)")
SPAN = re.compile(r"\b([A-F])(\d{1,2})-\1?(\d{1,2})\b")
ROWS: Mapping[str, str] = {
    "A1": "messages are kept with an importance score",
    "A2": "the model is chosen by the kind of work; /model pins, /auto unpins",
    "A5": "each iteration sees old memories and recent messages",
    "A6": "request_more_iterations: 10 more, 25 in all",
    "A7": "every class of provider error has its own answer",
    "A8": "last known good config",
    "A9": "three-pass repair of the history",
    "A10": "arguments that only the house fills in",
    "A11": "stall, ping-pong and repetition; coaching first",
    "A12": "iterations, and the closing call",
    "A13": "session ids and trust; sub-agents inherit",
    "A14": "Telegram, Slack and Discord: people, groups and threads, commands, buttons, files",
    "A15": "approvals: once, session, always, deny",
    "A16": "mail, events, schedules, goals; who wrote a mail; quiet hours",
    "A17": "sub-agents: depth, iterations, time, size, background",
    "A19": "daily budget, usage, /cost",
    "A20": "the config by tool, and /reload",
    "A22": "MCP servers as sources of tools",
    "B1": "agent specs in TOML",
    "B2": "termination conditions in spec order",
    "B3": "max_cycles, ok",
    "B4": "compression at 80 %: rolling-window, periodic-summary",
    "B5": "parallel dispatch, results together, events by name",
    "B6": "the nudge",
    "B7": "a tool's failure is a result",
    "B8": "approvals per call; protected paths",
    "B9": "the tree of iterations in the terminal",
    "B11": "composite agents",
    "C1": "a loop: fresh context for each attempt",
    "C2": "progress log, Iteration N of M",
    "C3": "criteria: max_iterations, regex, test_pass, manual",
    "C4": "events and notifications of a loop",
    "C5": "final output",
    "C6": "pause, resume, stop; shutdown",
    "C7": "loop settings of an agent; one loop at a time",
    "C8": "loops over HTTP",
    "C9": "roles at the HTTP door",
    "C12": "the gate holds in loops",
    "D1": "iterations, tokens, seconds: breakers of their own",
    "D2": "done is cross-checked",
    "D3": "unrecoverable errors",
    "D4": "low confidence",
    "D5": "outside signals are heard",
    "D6": "reasons are logged and counted; the alarm",
    "D7": "invariants of the loop",
    "E1": "seven ways to end",
    "E2": "a time limit for each call; cancel reaches into it",
    "E3": "intent, todo list, fading guidance",
    "E4": "what counts as an iteration",
    "E5": "parallel tools by rule",
    "E6": "tool retries",
    "E7": "steering, and stop within a second",
    "E8": "repair before each call",
    "E9": "the diagnostic message",
    "E10": "verification, reflection, claims",
    "E11": "checkpoints, resume, transcript",
    "E12": "batch inside, streaming outside",
    "E13": "effort for each provider",
    "F1": "inbox, turn, outbox",
    "F2": "the budget tree, and the question to extend",
    "F3": "taint across memory, files, sub-agents, summaries",
    "F4": "stop conditions checked by machine on live runs",
    "F5": "pinned rules",
    "F6": "claims against the ledger",
    "F8": "undo of files; the send window",
}
LATER: Mapping[str, str] = {
    "A3": "skills come with the memory; the base prompt and known facts are here (A5)",
    "A4": "recency and salience come with the memory; facts are found by their words",
    "A18": "consolidation comes with the memory",
    "A21": "skills come with the memory",
    "A23": "service, wizard and dashboard come with operations",
    "B10": "evaluation comes with replay",
    "C10": "live connections come with the page",
    "C11": "the ring comes with the page",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A test, and the rows it names itself, or its file does for it."""

    test: str
    own: frozenset[str]
    by_file: frozenset[str]


def rows_in(text: str) -> frozenset[str]:
    """Row ids in a docstring: A7, A11 A12, C1-C7."""
    spans = {
        f"{kind}{n}"
        for kind, low, high in SPAN.findall(text)
        for n in range(int(low), int(high) + 1)
    }
    return frozenset({kind + number for kind, number in ROW.findall(text)} | spans)


def rows_in_name(name: str) -> frozenset[str]:
    """Row ids in a test's name: test_a11_b2_..., test_A14_..."""
    parts = [*name.upper().split("_"), ""]
    named = pairwise(parts)
    return frozenset(
        part
        for part, after in named
        if re.fullmatch(r"[A-F]\d{1,2}", part) and not after.isdecimal()
    )


def shown_in(path: Path) -> Iterator[Shown]:
    """The tests of one file."""
    tree = ast.parse(path.read_text())
    by_file = rows_in(ast.get_docstring(tree) or "")
    where = path.relative_to(HERE.parent).as_posix()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            own = rows_in_name(node.name) | rows_in(ast.get_docstring(node) or "")
            yield Shown(f"{where}::{node.name}", own, by_file)


def table(tests: Iterable[Shown]) -> dict[str, list[str]]:
    """Row -> tests: those that name it themselves, else those whose file does."""
    known = list(tests)
    found = {}
    for row in ROWS:
        named = [one.test for one in known if row in one.own]
        found[row] = named or [f"{one.test} (by its file)" for one in known if row in one.by_file]
    return found


def main() -> int:
    """Print the table."""
    found = table(one for path in sorted(HERE.rglob("test_*.py")) for one in shown_in(path))
    for row, words in ROWS.items():
        print(f"{row:4} {words}: {len(found[row])} tests")
        print("".join(f"       {name}\n" for name in found[row]), end="")
    print("\n".join(f"{row:4} later: {why}" for row, why in LATER.items()))
    missing = [row for row in ROWS if not found[row]]
    if missing:
        print(f"no test names: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
