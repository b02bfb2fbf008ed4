"""AgentSpec: what an agent's author declares in agents/NAME.toml (B1); and the default one, made of [agent]."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from daemon.agent.config import AgentConfig
from daemon.agent.specs.checks import CheckPart
from daemon.agent.specs.parts import (
    STRICT,
    CompositePart,
    IdentityPart,
    IterationPart,
    LoopPart,
    OnBudget,
    OnStall,
    OutputPart,
    PolicyPart,
    ToolsPart,
)
from daemon.core.faults import explain
from daemon.core.keys import descend
from daemon.core.terms import Limits, Terms
from daemon.core.toml import ENDLESS, endless, refusal, table

DEFAULT = "default"
EXHAUSTED = "budget-exhausted"
BOTH = "iteration and [composite] exclude each other: one agent that loops, or several at one task; leave one of them out"
UNPRICED = 'is needed: a termination condition has kind = "budget-exhausted"'


class AgentSpec(BaseModel):
    """One agent. What it does not say comes from [agent]."""

    model_config = STRICT

    identity: IdentityPart
    on_stall: OnStall | None = None
    on_budget: OnBudget | None = None
    reflect: bool | None = None
    check_claims: bool | None = None
    model_policy: PolicyPart = Field(default_factory=PolicyPart)
    iteration: IterationPart | None = None
    tools: ToolsPart = Field(default_factory=ToolsPart)
    composite: CompositePart | None = None
    loop: LoopPart = Field(default_factory=LoopPart)
    verify: list[CheckPart] | None = None
    output: OutputPart = Field(default_factory=OutputPart)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.iteration and self.composite:
            raise ValueError(BOTH)
        if self._exhaustible and self.model_policy.budget.usd_per_run is None:
            raise ValueError(f"model_policy.budget.usd_per_run {UNPRICED}")
        return self

    @property
    def _exhaustible(self) -> bool:
        """Its author says that the end of the money is an end like others: nobody is asked for more."""
        conditions = self.iteration.termination_conditions if self.iteration else []
        return any(part.kind == EXHAUSTED for part in conditions)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.identity.name

    def terms(self, defaults: AgentConfig) -> Terms:
        """What a turn of it is begun under."""
        cycles, tools = self.iteration, self.tools
        usual = [] if self.composite else defaults.verify  # its members are held against them
        checks = usual if self.verify is None else self.verify
        return Terms(
            agent=self.name,
            instructions=self.identity.instructions,
            model=self.model_policy.model,
            effort=self.model_policy.effort,
            cycles=cycles is not None,
            conditions=tuple(part.condition(self.model_policy.budget.usd_per_run) for part in cycles.termination_conditions)
            if cycles
            else (),
            window=(cycles.context_window if cycles else None) or defaults.context_window,
            strategy=(cycles.summary_strategy if cycles else None) or defaults.summary_strategy,
            tools=tuple(tools.enabled),
            approvals=tools.approvals,
            protected_paths=tuple(tools.protected_paths),
            critical=tuple(tools.critical),
            checks=tuple(part.check() for part in checks),
            check_claims=defaults.check_claims if self.check_claims is None else self.check_claims,
            reflect=defaults.reflect if self.reflect is None else self.reflect,
            output_schema=self.output.text(),
            on_stall=self.on_stall or defaults.on_stall,
            on_budget=self.on_budget or ("stop" if self._exhaustible else defaults.on_budget),
            composite=self.composite.composite() if self.composite else None,
        )

    def limits(self, defaults: AgentConfig) -> Limits:
        """What a turn of it may use up. With an iteration block its cycles are exact: nothing adds to them (B3)."""
        usual, budget = defaults.limits(), self.model_policy.budget
        cycles = self.iteration.max_cycles if self.iteration else None
        return Limits(
            max_iterations=cycles or usual.max_iterations,
            max_iterations_cap=cycles or usual.max_iterations_cap,
            max_seconds=budget.seconds_per_run or usual.max_seconds,
            max_input_tokens=budget.tokens_per_run or usual.max_input_tokens,
            max_usd=budget.usd_per_run or usual.max_usd,
        )

    def warnings(self) -> list[str]:
        """What is accepted, but will not do what was probably meant (C3)."""
        return self.loop.warnings()

    def tools_meant(self) -> list[tuple[str, str]]:
        """(key, name or pattern) of every tool that it speaks of."""
        named = [(f"tools.enabled.{n}", tool) for n, tool in enumerate(self.tools.enabled)]
        named += [(f"tools.critical.{n}", tool) for n, tool in enumerate(self.tools.critical)]
        conditions = self.iteration.termination_conditions if self.iteration else []
        return named + [
            (f"iteration.termination_conditions.{n}.tool", part.tool)
            for n, part in enumerate(conditions)
            if part.kind == "tool-result"
        ]


def default_spec(defaults: AgentConfig) -> AgentSpec:
    """The agent that answers where no other is chosen: [agent], and its [agent.loop]."""
    return AgentSpec(identity=IdentityPart(name=DEFAULT), loop=defaults.loop)


def parse_spec(text: str, path: Path) -> AgentSpec:
    """A spec from the text of its file. Raises ConfigError with a line for every fault."""
    raw = table(text, path)
    faults = dict(_across(raw, path.stem))
    try:
        spec = AgentSpec.model_validate(raw)
    except ValidationError as error:
        told = [fault for fault in explain(error, AgentSpec, raw) if fault[0] or not faults]
        raise refusal(path, list((dict(told) | faults).items())) from error
    faults |= {key: ENDLESS for key in endless(raw)}
    if faults:
        raise refusal(path, list(faults.items()))
    return spec


def _across(raw: Mapping[str, object], stem: str) -> Iterator[tuple[str, str]]:
    """What is wrong across tables, read off the file itself: it is told also where single keys are wrong."""
    name = descend(raw.get("identity"), "name")
    if isinstance(name, str) and name != stem:
        yield "identity.name", f'found "{name}", expected "{stem}", as the file is called'
    if "iteration" in raw and "composite" in raw:
        yield "iteration", BOTH
    conditions = descend(raw.get("iteration"), "termination_conditions")
    exhausted = isinstance(conditions, list) and any(descend(one, "kind") == EXHAUSTED for one in conditions)
    policy = raw.get("model_policy")
    if exhausted and descend(descend(policy, "budget"), "usd_per_run") is None:
        yield "model_policy.budget.usd_per_run", UNPRICED
