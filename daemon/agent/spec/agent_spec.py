"""AgentSpec: what an agent's author declares in agents/NAME.toml (B1); and the default one, made
of [agent].
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from daemon.agent.config import AgentConfig
from daemon.agent.spec.sections import (
    CheckSection,
    CompositeSection,
    IdentitySection,
    IterationSection,
    LoopSection,
    OnBudget,
    OnStall,
    OutputSection,
    PolicySection,
    Section,
    ToolsSection,
    build_check,
    build_condition,
)
from daemon.core.turn_spec import Limits, TurnSpec
from daemon.settings.dotted_keys import get_child
from daemon.settings.load import NON_FINITE, config_error, find_non_finite, parse_table
from daemon.settings.validation_errors import explain_errors

DEFAULT = "default"
BUDGET_EXHAUSTED = "budget-exhausted"


class AgentSpec(Section):
    """One agent. What it does not say comes from [agent]."""

    identity: IdentitySection
    on_stall: OnStall | None = None
    on_budget: OnBudget | None = None
    reflect: bool | None = None
    reflect_every: Annotated[int, Field(ge=0)] | None = None
    check_claims: bool | None = None
    model_policy: PolicySection = Field(default_factory=PolicySection)
    iteration: IterationSection | None = None
    tools: ToolsSection = Field(default_factory=ToolsSection)
    composite: CompositeSection | None = None
    loop: LoopSection = Field(default_factory=LoopSection)
    verify: list[CheckSection] | None = None
    output: OutputSection = Field(default_factory=OutputSection)

    def turn_spec(self, defaults: AgentConfig) -> TurnSpec:
        """What a turn of it is begun under."""
        cycles, tools, policy = self.iteration, self.tools, self.model_policy
        conditions = cycles.termination_conditions if cycles else []
        # its author may say that the end of the money is an end like others: nobody is asked
        ends_on_budget = any(part.kind == BUDGET_EXHAUSTED for part in conditions)
        usual = [] if self.composite else defaults.verify  # its members are held against them
        schema = self.output.json_schema
        return TurnSpec(
            agent=self.identity.name,
            instructions=self.identity.instructions,
            model=policy.model,
            effort=policy.effort,
            cycles=cycles is not None,
            conditions=tuple(build_condition(one, policy.budget.usd_per_run) for one in conditions),
            window=(cycles.context_window if cycles else None) or defaults.context_window,
            strategy=(cycles.summary_strategy if cycles else None) or defaults.summary_strategy,
            tools=tuple(tools.enabled),
            approvals=tools.approvals.default,
            tool_approvals=tools.approvals.lines,
            protected_paths=tuple(tools.protected_paths),
            critical=tuple(tools.critical),
            checks=tuple(map(build_check, usual if self.verify is None else self.verify)),
            check_claims=defaults.check_claims if self.check_claims is None else self.check_claims,
            reflect=defaults.reflect if self.reflect is None else self.reflect,
            reflect_every=(
                defaults.reflect_every if self.reflect_every is None else self.reflect_every
            ),
            output_schema=""
            if schema is None
            else json.dumps(schema, ensure_ascii=False, default=str),
            on_stall=self.on_stall or defaults.on_stall,
            on_budget=self.on_budget or ("stop" if ends_on_budget else defaults.on_budget),
            composite=self.composite.composite() if self.composite else None,
        )

    def limits(self, defaults: AgentConfig) -> Limits:
        """What a turn of it may use up. With an iteration block its cycles are exact: nothing adds
        to them (B3).
        """
        budget = self.model_policy.budget
        cycles = self.iteration.max_cycles if self.iteration else None
        return Limits(
            cycles or defaults.max_iterations,
            cycles or defaults.max_iterations_cap,
            budget.seconds_per_run or defaults.max_seconds,
            budget.tokens_per_run or defaults.max_input_tokens or None,
            budget.usd_per_run or defaults.max_usd or None,
        )

    def tool_references(self) -> list[tuple[str, str]]:
        """(key, name or pattern) of every tool that it speaks of."""
        named = [(f"tools.enabled.{n}", tool) for n, tool in enumerate(self.tools.enabled)]
        named += [(f"tools.critical.{n}", tool) for n, tool in enumerate(self.tools.critical)]
        named += [(f"tools.approvals.{tool}", tool) for tool, _ in self.tools.approvals.lines]
        conditions = self.iteration.termination_conditions if self.iteration else []
        return named + [
            (f"iteration.termination_conditions.{n}.tool", part.tool)
            for n, part in enumerate(conditions)
            if part.kind == "tool-result"
        ]


def default_spec(defaults: AgentConfig) -> AgentSpec:
    """The agent that answers where no other is chosen: [agent], and its [agent.loop]."""
    return AgentSpec(identity=IdentitySection(name=DEFAULT), loop=defaults.loop)


def parse_spec(text: str, path: Path) -> AgentSpec:
    """A spec from the text of its file. Raises ConfigError with a line for every fault."""
    raw = parse_table(text, path)
    faults = dict(_check_raw(raw, path.stem))
    try:
        spec = AgentSpec.model_validate(raw)
    except ValidationError as error:
        found = dict(explain_errors(error, AgentSpec, raw)) | faults
        raise config_error(path, list(found.items())) from error
    faults |= {key: NON_FINITE for key in find_non_finite(raw)}
    if faults:
        raise config_error(path, list(faults.items()))
    return spec


def _check_raw(raw: Mapping[str, object], stem: str) -> Iterator[tuple[str, str]]:
    """What is wrong across tables, read off the file itself: it is told also where single keys are
    wrong.
    """
    name = get_child(raw.get("identity"), "name")
    if isinstance(name, str) and name != stem:
        yield "identity.name", f'found "{name}", expected "{stem}", as the file is called'
    if "iteration" in raw and "composite" in raw:
        yield (
            "iteration",
            "iteration and [composite] exclude each other: one agent that loops, or several at one"
            " task; leave one of them out",
        )
    conditions = get_child(raw.get("iteration"), "termination_conditions")
    exhausted = isinstance(conditions, list) and any(
        get_child(one, "kind") == BUDGET_EXHAUSTED for one in conditions
    )
    policy = raw.get("model_policy")
    if exhausted and get_child(get_child(policy, "budget"), "usd_per_run") is None:
        yield (
            "model_policy.budget.usd_per_run",
            f'is needed: a termination condition has kind = "{BUDGET_EXHAUSTED}"',
        )
