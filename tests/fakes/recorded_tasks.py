"""Healthy work that others recorded: tasks with their calls and what came of each; none where the recordings are not at hand."""

import json
from dataclasses import dataclass
from pathlib import Path

PREFIX = "office__"
RECORDINGS = Path(__file__).parents[3] / "shared" / "data" / "injection_dev.json"


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call; `error` is empty when it went well."""

    tool: str
    arguments: str
    output: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """What a user asked for, and all that was done."""

    name: str
    prompt: str
    answer: str
    calls: tuple[RecordedCall, ...]


def recorded_tasks() -> list[RecordedTask]:
    """All of them, in order."""
    if not RECORDINGS.exists():
        return []
    suites = json.loads(RECORDINGS.read_text())["suites"]
    return [
        RecordedTask(
            f"{name}/{task['id']}", task["prompt"], task["expected_output"] or "done", _calls(task)
        )
        for name, suite in suites.items()
        for task in suite["user_tasks"]
    ]


def tools_of(tasks: list[RecordedTask]) -> list[str]:
    """The names of the tools that they use, none of them one of ours."""
    return sorted({call.tool for task in tasks for call in task.calls})


def _calls(task: dict) -> tuple[RecordedCall, ...]:
    pairs = zip(task["calls"], task["steps"], strict=True)
    return tuple(
        RecordedCall(
            PREFIX + call["tool"],
            json.dumps(call["args"]),
            step["output"] or "",
            step["error"] or "",
        )
        for call, step in pairs
    )
