"""The whole config: each section is owned by the part that it configures; here they only stand side by side."""

from pydantic import BaseModel, ConfigDict, Field

from daemon.agent.config import AgentConfig, BudgetConfig


class Config(BaseModel):
    """config.toml. Every key has a default, so that an absent file is a config too."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: AgentConfig = Field(default_factory=AgentConfig, description="how far one turn may go")
    budget: BudgetConfig = Field(default_factory=BudgetConfig, description="what a day may cost")
