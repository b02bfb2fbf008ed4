"""What [agent] and [budget] may say."""

from typing import Literal, Self

from pydantic import Field, model_validator

from daemon.agent.spec.sections import (
    CheckSection,
    Effort,
    LoopSection,
    OnBudget,
    OnStall,
    Section,
)
from daemon.core.turn_spec import Strategy


class AgentConfig(Section):
    """[agent]: how far one turn may go, and how it treats what comes meanwhile."""

    max_iterations: int = Field(
        10, ge=1, description="model calls with tools per turn, from 1 to max_iterations_cap"
    )
    max_iterations_cap: int = Field(
        25, ge=1, le=1000, description="what request_more_iterations can reach"
    )
    while_busy: Literal["steer", "queue"] = Field(
        "steer", description="what becomes of a text sent while a turn runs"
    )
    max_seconds: float = Field(
        600, gt=0, description="seconds of work per turn; waiting for a person does not count"
    )
    max_input_tokens: int = Field(
        500_000, ge=0, description="tokens sent to the model per turn; 0: no limit"
    )
    max_usd: float = Field(2.0, ge=0, description="USD per turn; 0: no limit")
    on_stall: OnStall = Field(
        "coach", description="going in circles: say so first, or stop at once"
    )
    effort: Effort = Field("", description="reasoning effort; empty: the model's own")
    context_window: int = Field(
        32_000, ge=2_000, description="tokens of conversation that are sent at most"
    )
    summary_strategy: Strategy = Field(
        "rolling-window", description="what becomes of the oldest turns when the window is full"
    )
    verify: list[CheckSection] = Field(
        [], description="criteria that every final answer is held against"
    )
    check_claims: bool = Field(
        True, description="an answer that claims an effect that did not happen is sent back once"
    )
    reflect: bool = Field(False, description="after a turn, note what it taught, for the next one")
    reflect_every: int = Field(
        0, ge=0, description="after so many iterations, take stock before going on; 0: never"
    )
    on_budget: OnBudget = Field(
        "ask", description="a budget is used up: ask whether to go on, or stop"
    )
    loop: LoopSection = Field(
        default_factory=LoopSection,
        description="whether and how `aidaemon loop` runs the default agent",
    )
    max_turns_at_work: int = Field(
        1000,
        ge=0,
        description="turns at work at once, a quarter of them kept for the owner; 0: no limit",
    )
    max_untrusted_turns_at_work: int = Field(
        8, ge=0, description="of those, turns that events and strangers began; 0: no limit"
    )
    drain_seconds: float = Field(
        10, ge=0, le=300, description="how long a stopping daemon waits for running turns"
    )

    @model_validator(mode="after")
    def _within_the_cap(self) -> Self:
        if self.max_iterations > self.max_iterations_cap:
            raise ValueError(
                f"max_iterations must be from 1 to max_iterations_cap ({self.max_iterations_cap})"
            )
        return self


class BudgetConfig(Section):
    """[budget]: what the whole daemon may use up in a day of the owner's (G5)."""

    daily_tokens: int = Field(0, ge=0, description="tokens in and out per day; 0: no limit")
    daily_usd: float = Field(0.0, ge=0, description="USD per day; 0: no limit")
    owner_share: float = Field(
        0.25,
        ge=0,
        lt=1,
        description="part of the day that only the owner's own chats may use; 0: none",
    )
    unknown_input_usd: float = Field(
        5.0, ge=0, description="USD per million tokens sent to a model whose price is not known"
    )
    unknown_output_usd: float = Field(
        25.0, ge=0, description="USD per million tokens received from such a model"
    )


class SubagentsConfig(Section):
    """[subagents]: how far an agent that another one set to work may go (A17)."""

    max_depth: int = Field(3, ge=0, le=10, description="agents below agents; 0: none at all")
    max_iterations: int = Field(10, ge=1, le=1000, description="iterations of a sub-agent")
    max_cycles: int = Field(
        100, ge=1, le=1000, description="at most, of one whose agent file has max_cycles"
    )
    timeout_s: float = Field(300, gt=0, description="seconds of work of a sub-agent")
    max_response_chars: int = Field(
        8000, ge=200, description="characters of its answer that the parent is given"
    )
    max_background: int = Field(
        8, ge=0, description="agents at work in the background at once for one conversation"
    )
