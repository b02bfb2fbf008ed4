"""The parts of an agent's spec: what may stand in each table of agents/NAME.toml (B1)."""

import json
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from daemon.agent.specs.schema import schema_mistakes
from daemon.core.patterns import pattern_fault
from daemon.core.terms import BudgetExhausted, Composite, Composition, Member, Strategy, TextIncludes, ToolResult

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
UNFIT = "expected letters, digits, '-', '_' and '.', at most 64 of them"
STRICT = ConfigDict(extra="forbid", frozen=True, defer_build=True)
MOST_MEMBERS = 50
SHOWN = 200
ROUNDS: dict[Composition, int] = {"debate": 2, "iterative": 5}
Effort = Literal["", "low", "medium", "high", "max"]
OnStall = Literal["coach", "stop"]
OnBudget = Literal["ask", "stop"]


def agent_name(name: str) -> str:
    """A name that a file can have, or none. Raises ValueError."""
    if name and not NAME.fullmatch(name):
        raise ValueError(UNFIT)
    return name


Text = Annotated[str, StringConstraints(min_length=1)]
Name = Annotated[Text, AfterValidator(agent_name)]
MaybeName = Annotated[str, AfterValidator(agent_name)]


class IdentityPart(BaseModel):
    """Who the agent is. `name` is the file's name."""

    model_config = STRICT

    name: Name
    version: str = ""
    description: str = ""
    instructions: str = ""


class BudgetPart(BaseModel):
    """What one run may use up; what is not said comes from [agent]."""

    model_config = STRICT

    usd_per_run: float | None = Field(None, gt=0)
    tokens_per_run: int | None = Field(None, ge=1)
    seconds_per_run: float | None = Field(None, gt=0)


class PolicyPart(BaseModel):
    """Which model, how hard it thinks, what it may cost."""

    model_config = STRICT

    model: str = ""
    effort: Effort = ""
    budget: BudgetPart = Field(default_factory=BudgetPart)


class TextIncludesPart(BaseModel):
    """The run ends when the assistant's text contains this (B2)."""

    model_config = STRICT

    kind: Literal["text-includes"]
    text: Text

    def condition(self, usd: float | None) -> TextIncludes:
        """As a turn carries it."""
        return TextIncludes(self.text)


class MatchPart(BaseModel):
    """What a result has to be: all of what is said here."""

    model_config = STRICT

    exit_code: int | None = None
    contains: str = ""

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.exit_code is None and not self.contains:
            raise ValueError("expected exit_code, contains, or both")
        return self


class ToolResultPart(BaseModel):
    """The run ends when this tool gave such a result (B2)."""

    model_config = STRICT

    kind: Literal["tool-result"]
    tool: Text
    match: MatchPart

    def condition(self, usd: float | None) -> ToolResult:
        """As a turn carries it."""
        return ToolResult(self.tool, self.match.exit_code, self.match.contains)


class BudgetExhaustedPart(BaseModel):
    """The run ends when it has cost model_policy.budget.usd_per_run (B2)."""

    model_config = STRICT

    kind: Literal["budget-exhausted"]

    def condition(self, usd: float | None) -> BudgetExhausted:
        """As a turn carries it; a spec with this kind has `usd`."""
        return BudgetExhausted(usd or 0.0)


ConditionPart = Annotated[TextIncludesPart | ToolResultPart | BudgetExhaustedPart, Field(discriminator="kind")]


class IterationPart(BaseModel):
    """One model that loops until a condition holds or its cycles are used up (B1)."""

    model_config = STRICT

    max_cycles: int = Field(ge=1, le=1000)
    context_window: int | None = Field(None, ge=2_000)
    summary_strategy: Strategy | None = None
    termination_conditions: list[ConditionPart] = []


class ToolsPart(BaseModel):
    """Which tools it has (names or patterns; empty: all), and what is asked about before."""

    model_config = STRICT

    enabled: list[Text] = []
    approvals: Literal["", "risk", "always"] = ""
    protected_paths: list[Text] = []
    critical: list[Text] = []


class MemberPart(BaseModel):
    """One agent of a composite."""

    model_config = STRICT

    agent: Name
    brief: str = ""


class CompositePart(BaseModel):
    """Several agents at one task (B11)."""

    model_config = STRICT

    strategy: Composition
    agents: list[MemberPart] = Field(min_length=1, max_length=MOST_MEMBERS)
    rounds: int | None = Field(None, ge=1, le=20)
    judge: MaybeName = ""
    until: str = ""

    @model_validator(mode="after")
    def _says_what_it_uses(self) -> Self:
        if self.strategy == "debate" and len(self.agents) < 2:
            raise ValueError("agents must be two or more for a debate")
        if self.judge and self.strategy != "debate":
            raise ValueError('judge belongs to strategy = "debate"')
        if self.until and self.strategy != "iterative":
            raise ValueError('until belongs to strategy = "iterative"')
        if self.rounds and self.strategy not in ROUNDS:
            raise ValueError('rounds belongs to strategy = "debate" or "iterative"')
        return self

    def composite(self) -> Composite:
        """As a turn carries it."""
        members = tuple(Member(part.agent, part.brief) for part in self.agents)
        return Composite(self.strategy, members, self.rounds or ROUNDS.get(self.strategy, 1), self.judge, self.until)

    def named(self) -> list[tuple[str, str]]:
        """(key, agent) of all that it sets to work."""
        members = [(f"composite.agents.{index}.agent", part.agent) for index, part in enumerate(self.agents)]
        return members + ([("composite.judge", self.judge)] if self.judge else [])


class LoopPart(BaseModel):
    """Whether and how `aidaemon loop` runs it again and again (C7). An invalid regex only means: keep going (C3)."""

    model_config = STRICT

    enabled: bool = Field(False, description="must be true to start a loop")
    criterion: Literal["max_iterations", "regex", "test_pass", "manual"] = Field(
        "max_iterations", description="when it is done: at the last attempt; a pattern; a command's exit 0; a person's yes"
    )
    value: str = Field("", description="the pattern of regex, the command of test_pass")
    max_iterations: int = Field(10, ge=1, le=100, description="attempts at most")

    @model_validator(mode="after")
    def _has_its_value(self) -> Self:
        if self.criterion in ("regex", "test_pass") and not self.value.strip():
            raise ValueError(f'value is needed with criterion = "{self.criterion}"')
        return self

    def warnings(self) -> list[str]:
        """What will not do what was probably meant."""
        fault = pattern_fault(self.value) if self.criterion == "regex" else ""
        shown = self.value if len(self.value) <= SHOWN else f"{self.value[:SHOWN]}..."
        told = f"loop.value: {shown!r} is no regular expression ({fault}): the loop goes on to its last attempt"
        return [told] if fault else []


def _loaded(schema: str) -> object:
    try:
        found: object = json.loads(schema)
        json.dumps(found, allow_nan=False)  # Python reads Infinity, which is no JSON
    except ValueError as error:
        raise ValueError(f"expected a table, or a text that is JSON: {error}") from error
    return found


def _checkable(schema: object) -> object:
    try:
        schema = _loaded(schema) if isinstance(schema, str) else schema
        mistakes = schema_mistakes(schema)
    except RecursionError as error:
        raise ValueError("expected a schema that is not nested so deeply") from error
    if mistakes:
        raise ValueError("expected a JSON schema that can be checked: " + "; ".join(mistakes))
    return schema


class OutputPart(BaseModel):
    """The JSON schema that the final answer has to fit, as a table or as JSON text (D3)."""

    model_config = STRICT

    json_schema: Annotated[object, AfterValidator(_checkable)] = Field(None, alias="schema")

    def text(self) -> str:
        """As JSON; "" where there is none."""
        return "" if self.json_schema is None else json.dumps(self.json_schema, ensure_ascii=False, default=str)
