"""Extracts from a run what is evaluated, and holds the checks of its case against it (B10)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from daemon.core import value
from daemon.core.trust import Stop
from daemon.ops.evaluation.spec import (
    ContainsCheck,
    EvalCase,
    JudgeCheck,
    RegexCheck,
    RubricCheck,
    Source,
)
from daemon.tools.criteria_checks import match_pattern

FOUND_CHARS = 300
MAX_CYCLES = "maxCycles"  # the stop reason where the agent's author set the limit (B3)
QUARANTINED = "quarantined"
NO_ANSWER = (Stop.FAILED, Stop.CANCELLED, Stop.OVER_BUDGET, Stop.DEADLINE, QUARANTINED)
NO_RESULT = "there is no tool result"


@value
class Extraction:
    """What one run came to. `final_tool_result` is None where no tool was called."""

    text: str
    final_tool_result: str | None
    cycles: int
    terminated_by: str

    def get_source(self, name: Source) -> str | None:
        """The part that a check is about."""
        sources = {"text": self.text, "finalToolResult": self.final_tool_result}
        return sources.get(name, self.terminated_by)


@value
class CheckResult:
    """`score` is that of a judge, where one gave it; `detail` says what was found."""

    type: str
    passed: bool
    score: float | None = None
    detail: str = ""


AskJudge = Callable[[RubricCheck | JudgeCheck, str, Extraction], Awaitable[CheckResult]]
"""The judge's result for a prompt and what came of it."""


def extract(transcript: Sequence[Mapping[str, object]], cycles: int) -> Extraction:
    """From the recorded events of a run; `cycles` is their count of iterations."""
    text, result, ended, has_cycles = "", None, QUARANTINED, False
    for line in transcript:
        match line:
            case {"kind": "UserSaid", "terms": Mapping() as terms}:
                has_cycles = bool(terms.get("cycles"))
            case {"kind": "ToolFinished", "text": str(found)}:
                result = found
            case {"kind": "TurnEnded", "reason": str(reason)}:
                ended, text = reason, str(line.get("reply", ""))
            case _:
                pass
    if has_cycles and ended == Stop.MAX_ITERATIONS:
        ended = MAX_CYCLES
    return Extraction(text, result, cycles, ended)


async def check_case(
    case: EvalCase, extraction: Extraction, judge: AskJudge
) -> Sequence[CheckResult]:
    """The result of each check. A run that came to no answer fails, unless the case is about how
    it ends.
    """
    about_end = any(getattr(one, "of", "") == "terminatedBy" for one in case.checks)
    if extraction.terminated_by in NO_ANSWER and not about_end:
        why = clip_found(extraction.text) or "`aidaemon show TURN` tells what it did"
        ended = f"the run came to no answer ({extraction.terminated_by})"
        return [CheckResult("run", False, None, f"{ended}: {why}")]
    results: list[CheckResult] = []
    for check in case.checks:
        match check:
            case ContainsCheck():
                results.append(_check_contains(check, extraction))
            case RegexCheck():
                results.append(await _check_regex(check, extraction))
            case RubricCheck() | JudgeCheck():
                results.append(await judge(check, case.prompt, extraction))
    return results


def _check_contains(check: ContainsCheck, extraction: Extraction) -> CheckResult:
    found = extraction.get_source(check.of)
    wanted, text = check.value, found or ""
    if not check.case_sensitive:
        wanted, text = wanted.casefold(), text.casefold()
    verb = "contains" if check.negated else "does not contain"
    failure = f"{check.of} {verb} {check.value!r}; found: {clip_found(found)}"
    return _report(check, wanted in text, failure)


async def _check_regex(check: RegexCheck, extraction: Extraction) -> CheckResult:
    found = extraction.get_source(check.of)
    if found is None:
        return _report(check, False, f"{check.of}: {NO_RESULT}")
    result = await match_pattern(check.pattern, found)
    if result.not_checked:
        return CheckResult(check.type, False, None, f"could not be checked: {result.warning}")
    verb = "matches" if check.negated else "does not match"
    failure = f"{check.of} {verb} {check.pattern!r}; found: {clip_found(found)}"
    return _report(check, result.met, failure)


def _report(check: ContainsCheck | RegexCheck, found: bool, failure: str) -> CheckResult:
    passed = found is not check.negated
    return CheckResult(check.type, passed, None, "" if passed else failure)


def clip_found(text: str | None) -> str:
    """The begin of what was found."""
    if text is None:
        return NO_RESULT
    return text if len(text) <= FOUND_CHARS else f"{text[:FOUND_CHARS]}…"
