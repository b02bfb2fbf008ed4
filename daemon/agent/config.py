"""What [agent] and [budget] may say."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from daemon.core.events import Limits


class AgentConfig(BaseModel):
    """[agent]: how far one turn may go, and how it treats what comes meanwhile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_iterations: int = Field(10, ge=1, description="model calls with tools per turn, from 1 to max_iterations_cap")
    max_iterations_cap: int = Field(25, ge=1, le=1000, description="what request_more_iterations can reach")
    while_busy: Literal["steer", "queue"] = Field("steer", description="what becomes of a text sent while a turn runs")
    max_seconds: float = Field(600, gt=0, description="seconds of work per turn; waiting for a person does not count")
    max_input_tokens: int = Field(500_000, ge=0, description="tokens sent to the model per turn; 0: no limit")
    max_usd: float = Field(2.0, ge=0, description="USD per turn; 0: no limit")
    on_stall: Literal["coach", "stop"] = Field("coach", description="going in circles: say so first, or stop at once")
    effort: Literal["", "low", "medium", "high", "max"] = Field("", description="reasoning effort; empty: the model's own")
    context_window: int = Field(32_000, ge=2_000, description="tokens of conversation that are sent at most")
    drain_seconds: float = Field(10, ge=0, le=300, description="how long a stopping daemon waits for running turns")

    @model_validator(mode="after")
    def _within_the_cap(self) -> Self:
        if self.max_iterations > self.max_iterations_cap:
            raise ValueError(f"max_iterations must be from 1 to max_iterations_cap ({self.max_iterations_cap})")
        return self

    def limits(self) -> Limits:
        """What a turn that begins now may use up."""
        return Limits(
            max_iterations=self.max_iterations,
            max_iterations_cap=self.max_iterations_cap,
            max_seconds=self.max_seconds,
            max_input_tokens=self.max_input_tokens or None,
            max_usd=self.max_usd or None,
        )


class BudgetConfig(BaseModel):
    """[budget]: what the whole daemon may use up in a day (UTC)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    daily_tokens: int = Field(0, ge=0, description="tokens in and out per day; 0: no limit")
    daily_usd: float = Field(0.0, ge=0, description="USD per day; 0: no limit")
