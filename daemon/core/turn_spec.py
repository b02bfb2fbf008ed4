"""What a turn is begun under, and keeps to its end: limits, declared conditions, checks, the agent
it is (B1, D1).

Regular expressions that people write into files.
"""

import re
from enum import StrEnum
from re import _parser  # type: ignore[attr-defined]  # only reads; nothing public does
from typing import Literal

from daemon.core import value
from daemon.core.trust import ToolApproval

MAX_PATTERN_CHARS = 1000
Strategy = Literal["rolling-window", "periodic-summary"]
Composition = Literal["sequential", "parallel", "debate", "iterative"]


class Intent(StrEnum):
    """What kind of work a message asks for (E3)."""

    TRIVIAL = "trivial"
    SIMPLE_QUERY = "simple_query"
    MULTI_STEP = "multi_step"
    COMPLEX = "complex"


@value
class Limits:
    """What a turn may use up: iterations, seconds of work, tokens in, USD. None is no limit of that
    kind.
    """

    max_iterations: int = 10
    max_iterations_cap: int = 25
    max_seconds: float = 600.0
    max_input_tokens: int | None = None
    max_usd: float | None = None


@value
class TextIncludes:
    """The assistant's text contains this (B2)."""

    text: str
    kind: Literal["text-includes"] = "text-includes"


@value
class ToolResult:
    """A result of this tool, in the latest iteration, has this exit code AND contains this; None
    and "" ask nothing (B2).
    """

    tool: str
    exit_code: int | None = None
    contains: str = ""
    kind: Literal["tool-result"] = "tool-result"


@value
class BudgetExhausted:
    """The run has cost so much, its sub-agents included (B2)."""

    usd: float
    kind: Literal["budget-exhausted"] = "budget-exhausted"


Condition = TextIncludes | ToolResult | BudgetExhausted


@value
class AnswerCheck:
    """A criterion that a final answer is held against (E10).

    value: the pattern, the text, the command, or what a judge is to look for; `tool` and
    `exit_code` belong to tool_result.
    """

    kind: Literal["regex", "contains", "test_pass", "tool_result", "manual", "judge"]
    value: str = ""
    tool: str = ""
    exit_code: int | None = None


@value
class Member:
    """One agent of a composite, and what it is told beside the task."""

    agent: str
    brief: str = ""


@value
class Composite:
    """Several agents at one task (B11). `judge` sums a debate up; an iterative one ends when its
    text has `until` in it.
    """

    strategy: Composition
    members: tuple[Member, ...]
    rounds: int = 1
    judge: str = ""
    until: str = ""


@value
class TurnSpec:
    """An agent's spec as far as a turn needs it. `cycles`: exactly max_iterations model calls, with
    tools in all of them (B3).

    `tools` are patterns of names; empty: all. `tool_approvals`: (name or pattern, when its calls
    are asked about) (B8). `critical`: a refusal of these ends the turn (D3).
    `output_schema`: JSON schema that the answer must fit. `depth` counts how many agents are above
    this one (A17). `plan_first`: until a plan is approved it only reads.
    """

    agent: str = "default"
    instructions: str = ""
    model: str = ""
    effort: str = ""
    cycles: bool = False
    conditions: tuple[Condition, ...] = ()
    window: int = 32_000
    strategy: Strategy = "rolling-window"
    tools: tuple[str, ...] = ()
    approvals: Literal["", "risk", "always"] = ""
    tool_approvals: tuple[tuple[str, ToolApproval], ...] = ()
    protected_paths: tuple[str, ...] = ()
    critical: tuple[str, ...] = ()
    checks: tuple[AnswerCheck, ...] = ()
    check_claims: bool = True
    reflect: bool = False
    reflect_every: int = 0
    output_schema: str = ""
    on_stall: Literal["coach", "stop"] = "coach"
    on_budget: Literal["ask", "stop"] = "stop"
    composite: Composite | None = None
    depth: int = 0
    plan_first: bool = False


PLAN_WORD = "/plan "


def check_pattern(pattern: str) -> str:
    """Why this cannot be used; "" when it can. It is only read here: compiling 1,000 signs may take
    seconds, so that is left to the child process that matches, which can be killed.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"it has {len(pattern)} characters, at most {MAX_PATTERN_CHARS} are taken"
    try:
        _parser.parse(pattern)
    except (re.error, OverflowError) as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return ""


def describe_budget(
    max_usd: float | None, max_tokens: float | None, day_usd: float, day_tokens: float
) -> str:
    """What a person raised the budget to."""
    if day_usd or day_tokens:
        return f"${day_usd:g} more today" if day_usd else f"{day_tokens:,.0f} tokens more today"
    caps = [f"${max_usd:g}"] if max_usd is not None else []
    caps += [f"{max_tokens:,.0f} tokens"] if max_tokens is not None else []
    return f"up to {' and '.join(caps)}"
