"""The whole config: each section is owned by the part that it configures; here they only stand side by side."""

from pydantic import BaseModel, ConfigDict, Field

from channels.discord.config import DiscordConfig
from channels.slack.config import SlackConfig
from channels.telegram.config import TelegramConfig
from daemon.agent.config import AgentConfig, BudgetConfig, SubagentsConfig
from daemon.http.config import HttpConfig
from daemon.loops.config import LoopsConfig
from daemon.providers.config import ProviderConfig
from daemon.tools.config import ToolsConfig
from daemon.tools.mcp.config import McpConfig, ServerName
from daemon.triggers.config import EventsConfig


class Config(BaseModel):
    """config.toml. Every key has a default, so that an absent file is a config too."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: ProviderConfig = Field(
        default_factory=ProviderConfig, description="the language model"
    )
    agent: AgentConfig = Field(default_factory=AgentConfig, description="how far one turn may go")
    budget: BudgetConfig = Field(default_factory=BudgetConfig, description="what a day may cost")
    subagents: SubagentsConfig = Field(
        default_factory=SubagentsConfig, description="agents below agents"
    )
    loops: LoopsConfig = Field(
        default_factory=LoopsConfig,
        description="loops of a live page that nobody looks at any more",
    )
    http: HttpConfig = Field(
        default_factory=HttpConfig, description="the daemon's door for this machine"
    )
    telegram: TelegramConfig = Field(
        default_factory=TelegramConfig, description="a Telegram bot of yours"
    )
    slack: SlackConfig = Field(default_factory=SlackConfig, description="a Slack app of yours")
    discord: DiscordConfig = Field(
        default_factory=DiscordConfig, description="a Discord bot of yours"
    )
    events: EventsConfig = Field(
        default_factory=EventsConfig, description="what may set the assistant to work from outside"
    )
    tools: ToolsConfig = Field(
        default_factory=ToolsConfig, description="what the assistant may do, and how it is asked"
    )
    contacts: dict[str, list[str]] = Field(
        {},
        description="people by name, with their addresses: what is sent there was meant to go there",
    )
    mcp: dict[ServerName, McpConfig] = Field(
        {}, description="servers of others, whose tools the assistant may use"
    )
