"""Shows the results of an evaluation: a table with the checks that failed, or JSON."""

from collections.abc import Iterator, Sequence

from channels.markup.sanitize import escape_controls, shorten_line
from daemon.cli.evaluation.runner import CaseResult, CaseRun
from daemon.cli.review.runs import format_cost, render_table
from daemon.ops.evaluation.spec import EvalSpec

HEADER = ("case", "result", "checks", "cycles", "terminatedBy", "cost", "prompt")
NAME_CHARS, PROMPT_CHARS = 40, 200


def render_report(
    spec: EvalSpec, results: Sequence[CaseResult], width: int, *, colors: bool = False
) -> str:
    """The table, the failed checks below, and how many of all cases passed."""
    table = render_table([HEADER, *map(_cells, results)], (), width, colors=colors)
    failures = [line for one in results for line in _iter_failures(one)]
    passed = sum(one.passed for one in results)
    parts = (table, "\n".join(failures), f"{passed} of {len(spec.cases)} cases passed")
    return "\n\n".join(part for part in parts if part)


def report_to_json(path: str, spec: EvalSpec, results: Sequence[CaseResult]) -> dict[str, object]:
    """All of it; a case that was repeated has each of its `runs`, too."""
    is_whole = len(results) == len(spec.cases)
    return {
        "spec": path,
        "agent": spec.agent,
        "passed": is_whole and all(one.passed for one in results),
        "cases": [_case_to_json(one) for one in results],
    }


def _cells(result: CaseResult) -> tuple[str, ...]:
    checks = [check for run in result.runs for check in run.checks]
    shown, word = result.shown.extraction, "passed" if result.passed else "failed"
    if len(result.runs) > 1:
        word = f"{sum(one.passed for one in result.runs)} of {len(result.runs)} runs passed"
    return (
        shorten_line(result.case.name, NAME_CHARS),
        word,
        f"{sum(one.passed for one in checks)} of {len(checks)}",
        str(shown.cycles),
        shown.terminated_by,
        format_cost(result.usd),
        shorten_line(result.case.prompt, PROMPT_CHARS),
    )


def _iter_failures(result: CaseResult) -> Iterator[str]:
    many, name = len(result.runs) > 1, shorten_line(result.case.name, NAME_CHARS)
    for number, run in enumerate(result.runs, 1):
        where = f"{name}, run {number}" if many else name
        for check in run.checks:
            if not check.passed:
                detail = escape_controls(check.detail).replace("\n", "\n    ")
                yield f"{where}: {check.type}: {detail}"


def _run_to_json(run: CaseRun) -> dict[str, object]:
    return {
        "passed": run.passed,
        "turn": run.turn,
        "text": run.extraction.text,
        "finalToolResult": run.extraction.final_tool_result,
        "cycles": run.extraction.cycles,
        "terminatedBy": run.extraction.terminated_by,
        "usd": run.usd,
        "checks": [
            {"type": one.type, "passed": one.passed, "score": one.score, "detail": one.detail}
            for one in run.checks
        ],
    }


def _case_to_json(result: CaseResult) -> dict[str, object]:
    own = {"name": result.case.name, "passed": result.passed, "usd": result.usd}
    repeated: dict[str, object] = {}
    if len(result.runs) > 1:
        passes = sum(one.passed for one in result.runs)
        repeated = {"passes": passes, "runs": [_run_to_json(one) for one in result.runs]}
    return {"name": result.case.name, **_run_to_json(result.shown), **own, **repeated}
