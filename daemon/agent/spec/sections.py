"""The parts of an agent's spec: what may stand in each table of agents/NAME.toml (B1).

[[verify]]: the criteria that a final answer is held against, as a file says them (E10).
"""

import json
import re
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from daemon.core.turn_spec import (
    AnswerCheck,
    BudgetExhausted,
    Composite,
    Composition,
    Condition,
    Member,
    Strategy,
    TextIncludes,
    ToolResult,
    check_pattern,
)
from daemon.tools.policy.tool_approvals import AgentApprovals

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NAME_RULE = "expected letters, digits, '-', '_' and '.', at most 64 of them"
MAX_MEMBERS = 50
MAX_SHOWN = 200
OPERATORS, QUOTING = frozenset("|&;<>"), frozenset("\"'`$")
DEFAULT_ROUNDS: dict[Composition, int] = {"debate": 2, "iterative": 5}
Effort = Literal["", "low", "medium", "high", "max"]
OnStall = Literal["coach", "stop"]
OnBudget = Literal["ask", "stop"]


def check_name(name: str) -> str:
    """A name that a file can have, or none. Raises ValueError."""
    if name and not NAME.fullmatch(name):
        raise ValueError(NAME_RULE)
    return name


Text = Annotated[str, StringConstraints(min_length=1)]
Name = Annotated[Text, AfterValidator(check_name)]
OptionalName = Annotated[str, AfterValidator(check_name)]


class Section(BaseModel):
    """A table that may have no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class IdentitySection(Section):
    """Who the agent is. `name` is the file's name."""

    name: Name
    version: str = ""
    description: str = ""
    instructions: str = ""


class BudgetSection(Section):
    """What one run may use up; what is not said comes from [agent]."""

    usd_per_run: float | None = Field(None, gt=0)
    tokens_per_run: int | None = Field(None, ge=1)
    seconds_per_run: float | None = Field(None, gt=0)


class PolicySection(Section):
    """Which model, how hard it thinks, what it may cost."""

    model: str = ""
    effort: Effort = ""
    budget: BudgetSection = Field(default_factory=BudgetSection)


class TextIncludesSection(Section):
    """The run ends when the assistant's text contains this (B2)."""

    kind: Literal["text-includes"]
    text: Text


class MatchSection(Section):
    """What a result has to be: all of what is said here."""

    exit_code: int | None = None
    contains: str = ""

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.exit_code is None and not self.contains:
            raise ValueError("expected exit_code, contains, or both")
        return self


class ToolResultSection(Section):
    """The run ends when this tool gave such a result (B2)."""

    kind: Literal["tool-result"]
    tool: Text
    match: MatchSection


class BudgetExhaustedSection(Section):
    """The run ends when it has cost model_policy.budget.usd_per_run (B2)."""

    kind: Literal["budget-exhausted"]


ConditionSection = Annotated[
    TextIncludesSection | ToolResultSection | BudgetExhaustedSection, Field(discriminator="kind")
]


def build_condition(part: ConditionSection, usd: float | None) -> Condition:
    """As a turn carries it; a spec with budget-exhausted has `usd`."""
    match part:
        case TextIncludesSection():
            return TextIncludes(part.text)
        case ToolResultSection():
            return ToolResult(part.tool, part.match.exit_code, part.match.contains)
        case BudgetExhaustedSection():
            return BudgetExhausted(usd or 0.0)


class IterationSection(Section):
    """One model that loops until a condition holds or its cycles are used up (B1)."""

    max_cycles: int = Field(ge=1, le=1000)
    context_window: int | None = Field(None, ge=2_000)
    summary_strategy: Strategy | None = None
    termination_conditions: list[ConditionSection] = []


class ToolsSection(Section):
    """Which tools it has (names or patterns; empty: all), and what is asked about before."""

    enabled: list[Text] = []
    approvals: AgentApprovals = AgentApprovals()
    protected_paths: list[Text] = []
    critical: list[Text] = []


class MemberSection(Section):
    """One agent of a composite."""

    agent: Name
    brief: str = ""


class CompositeSection(Section):
    """Several agents at one task (B11)."""

    strategy: Composition
    agents: list[MemberSection] = Field(min_length=1, max_length=MAX_MEMBERS)
    rounds: int | None = Field(None, ge=1, le=20)
    judge: OptionalName = ""
    until: str = ""

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.strategy == "debate" and len(self.agents) < 2:
            raise ValueError("agents must be two or more for a debate")
        if self.judge and self.strategy != "debate":
            raise ValueError('judge belongs to strategy = "debate"')
        if self.until and self.strategy != "iterative":
            raise ValueError('until belongs to strategy = "iterative"')
        if self.rounds and self.strategy not in DEFAULT_ROUNDS:
            raise ValueError('rounds belongs to strategy = "debate" or "iterative"')
        return self

    def composite(self) -> Composite:
        """As a turn carries it."""
        members = tuple(Member(part.agent, part.brief) for part in self.agents)
        return Composite(
            self.strategy,
            members,
            self.rounds or DEFAULT_ROUNDS.get(self.strategy, 1),
            self.judge,
            self.until,
        )

    def agent_references(self) -> list[tuple[str, str]]:
        """(key, agent) of all that it sets to work."""
        members = [
            (f"composite.agents.{index}.agent", part.agent)
            for index, part in enumerate(self.agents)
        ]
        return members + ([("composite.judge", self.judge)] if self.judge else [])


def _find_shell_signs(command: str) -> list[str]:
    """What only a shell would understand: operators, quotes, variables."""
    words = command.split()
    return [one for one in words if set(one) <= OPERATORS or not QUOTING.isdisjoint(one)]


class LoopSection(Section):
    """Whether and how `aidaemon loop` runs it again and again (C7). An invalid regex only means:
    keep going (C3).
    """

    enabled: bool = Field(False, description="must be true to start a loop")
    criterion: Literal["max_iterations", "regex", "test_pass", "manual"] = Field(
        "max_iterations",
        description=(
            "when it is done: at the last attempt; a pattern; a command's exit 0; a person's yes"
        ),
    )
    value: str = Field("", description="the pattern of regex, the command of test_pass")
    max_iterations: int = Field(10, ge=1, le=100, description="attempts at most")

    @model_validator(mode="after")
    def _check_value(self) -> Self:
        if self.criterion in ("regex", "test_pass") and not self.value.strip():
            raise ValueError(f'value is needed with criterion = "{self.criterion}"')
        return self

    def warnings(self) -> list[str]:
        """What will not do what was probably meant."""
        if self.criterion == "test_pass" and (signs := _find_shell_signs(self.value)):
            return [
                f"loop.value: the command runs without a shell: {', '.join(signs)} is an argument;"
                " put what needs a shell into a script, and name that"
            ]
        fault = check_pattern(self.value) if self.criterion == "regex" else ""
        if not fault:
            return []
        long = len(self.value) > MAX_SHOWN
        shown = f"{self.value[:MAX_SHOWN]}..." if long else self.value
        return [
            f"loop.value: {shown!r} is no regular expression ({fault}): the"
            " loop goes on to its last attempt"
        ]


def _check_schema(schema: object) -> object:
    from daemon.agent.spec.json_schema import check_schema  # lazy: jsonschema, 60 ms

    try:
        if isinstance(schema, str):
            schema = json.loads(schema)
            json.dumps(schema, allow_nan=False)  # Python reads Infinity, which is no JSON
        mistakes = check_schema(schema)
    except ValueError as error:
        raise ValueError(f"expected a table, or a text that is JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("expected a schema that is not nested so deeply") from error
    if mistakes:
        raise ValueError("expected a JSON schema that can be checked: " + "; ".join(mistakes))
    return schema


class OutputSection(Section):
    """The JSON schema that the final answer has to fit, as a table or as JSON text (D3)."""

    json_schema: Annotated[object, AfterValidator(_check_schema)] = Field(None, alias="schema")


def validate_pattern(pattern: str) -> str:
    """A regular expression that can be used. Raises ValueError."""
    if fault := check_pattern(pattern):
        raise ValueError(f"expected a regular expression: {fault}")
    return pattern


Pattern = Annotated[Text, AfterValidator(validate_pattern)]


class TextCheckSection(Section):
    """The answer contains this text, or this command exits with 0, or a model that is asked this
    about it says yes (E10).
    """

    kind: Literal["contains", "test_pass", "judge"]
    value: Text


class RegexCheckSection(Section):
    """The answer matches this (E10)."""

    kind: Literal["regex"]
    value: Pattern


class ToolCheckSection(Section):
    """This tool has given such a result in this turn (E10)."""

    kind: Literal["tool_result"]
    tool: Text
    exit_code: int | None = None
    contains: str = ""


class ManualCheckSection(Section):
    """A person says yes to the answer; `value` says what to look at (E10)."""

    kind: Literal["manual"]
    value: str = ""


CheckSection = Annotated[
    TextCheckSection | RegexCheckSection | ToolCheckSection | ManualCheckSection,
    Field(discriminator="kind"),
]


def build_check(part: CheckSection) -> AnswerCheck:
    """As a turn carries it."""
    if isinstance(part, ToolCheckSection):
        return AnswerCheck(part.kind, part.contains, part.tool, part.exit_code)
    return AnswerCheck(part.kind, part.value)
