"""[slack] in config.toml.

How long things may take, and how often one looks. In seconds.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from channels.settings import check_account_names, check_distinct_bots, parse_token, parse_url

EXAMPLE = "https://slack.com/api/"


def _token(value: str) -> str:
    return parse_token(value, "a token such as xapp-1-A0... or xoxb-0...")


def _ends_in_api(value: str) -> str:
    whole = parse_url(value, ("http", "https"), EXAMPLE) + "/"
    if not whole.endswith("/api/"):
        raise ValueError(f"expected an address that ends in /api/, such as {EXAMPLE}")
    return whole


class SlackAccount(BaseModel):
    """One workspace: the app's two tokens, and who may write to it there (A14)."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    app_token: Annotated[str, AfterValidator(_token)] = Field(
        "", repr=False, description="xapp-..., with connections:write: for Socket Mode"
    )
    bot_token: Annotated[str, AfterValidator(_token)] = Field(
        "",
        repr=False,
        description="xoxb-..., of the app's installation in the workspace; empty: not started",
    )
    allowed_user_ids: list[str | int] = Field(
        default_factory=list, description="member ids (U...) who may write to it; empty: nobody"
    )
    owner_ids: list[str | int] = Field(
        default_factory=list, description="member ids of the owners, who are asked for approval"
    )
    use_threads: bool = Field(
        True, description="answer in a channel in a thread, which is then a conversation of its own"
    )
    base_url: Annotated[str, AfterValidator(_ends_in_api)] = Field(
        EXAMPLE, description="where the web API is; ends in /api/"
    )

    @model_validator(mode="after")
    def _has_both_tokens(self) -> "SlackAccount":
        if bool(self.app_token) != bool(self.bot_token):
            missing = "app_token (xapp-...)" if self.bot_token else "bot_token (xoxb-...)"
            raise ValueError(f"{missing} is missing; Socket Mode needs both tokens")
        if self.app_token.startswith("xoxb-") or self.bot_token.startswith("xapp-"):
            raise ValueError(
                "app_token and bot_token are interchanged; expected xapp-... and xoxb-..."
            )
        return self


class SlackConfig(SlackAccount):
    """The first workspace, and further ones by name: [slack.accounts.work] has the same keys."""

    accounts: Annotated[dict[str, SlackAccount], AfterValidator(check_account_names)] = Field(
        default_factory=dict, description="further workspaces; their channels are called NAME/slack"
    )

    @model_validator(mode="after")
    def _has_each_bot_once(self) -> "SlackConfig":
        check_distinct_bots(
            {
                name: (one.bot_token, one.base_url)
                for name, one in {"": self, **self.accounts}.items()
            }
        )
        return self


@dataclass(frozen=True, slots=True)
class SlackTiming:
    """`ping_s`: between signs of life on the connection; four that go unanswered end it. `hello_s`: until Slack has greeted.
    `check_s`: without a message, then Slack is asked who we are. `quiet_s`: without a message, then the history is looked at,
    for a connection may live and bring nothing. `hold_s`: how long what comes waits for what was missed meanwhile.
    `margin_s`: how far before the cursor one begins to look. `answer_s`: how long a slash command may wait for its answer.
    """

    ping_s: float = 5.0
    hello_s: float = 10.0
    check_s: float = 60.0
    quiet_s: float = 300.0
    settle_s: float = 10.0
    hold_s: float = 10.0
    margin_s: float = 60.0
    keep_s: float = 3.0
    answer_s: float = 2.0
    timeout_s: float = 20.0
    transfer_s: float = 120.0
    close_s: float = 2.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
