"""[slack] in config.toml, and how long things may take."""

from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from channels import value
from channels.settings import Accounts, BotAccount, check_distinct_bots, parse_token, parse_url

TOKENS = "a token such as xapp-1-A0... or xoxb-0..."
EXAMPLE = "https://slack.com/api/"


def _check_api(value: str) -> str:
    url = parse_url(value, EXAMPLE) + "/"
    if not url.endswith("/api/"):
        raise ValueError(f"expected an address that ends in /api/, such as {EXAMPLE}")
    return url


class SlackAccount(BotAccount):
    """One workspace: the app's two tokens, and who may write to it there (A14)."""

    app_token: Annotated[str, AfterValidator(partial(parse_token, expected=TOKENS))] = Field(
        "", repr=False, description="xapp-..., with connections:write: for Socket Mode"
    )
    bot_token: Annotated[str, AfterValidator(partial(parse_token, expected=TOKENS))] = Field(
        "",
        repr=False,
        description="xoxb-..., of the app's installation in the workspace; empty: not started",
    )
    use_threads: bool = Field(
        True, description="answer in a channel in a thread, which is then a conversation of its own"
    )
    base_url: Annotated[str, AfterValidator(_check_api)] = Field(
        EXAMPLE, description="where the web API is; ends in /api/"
    )

    @model_validator(mode="after")
    def _check_both_tokens(self) -> "SlackAccount":
        if bool(self.app_token) != bool(self.bot_token):
            missing = "app_token (xapp-...)" if self.bot_token else "bot_token (xoxb-...)"
            raise ValueError(f"{missing} is missing; Socket Mode needs both tokens")
        if self.app_token.startswith("xoxb-") or self.bot_token.startswith("xapp-"):
            text = "app_token and bot_token are interchanged; expected xapp-... and xoxb-..."
            raise ValueError(text)
        return self


class SlackConfig(SlackAccount):
    """The first workspace, and further ones by name: [slack.accounts.work] has the same keys."""

    accounts: Accounts[SlackAccount] = Field(
        default_factory=dict, description="further workspaces; their channels are called NAME/slack"
    )
    _distinct = model_validator(mode="after")(check_distinct_bots)


@value
class SlackTiming:
    """Seconds. `ping_s`: of silence, until all is looked after; after three of them Slack is
    pinged, and a ping without an answer ends the connection. `hello_s`: until Slack has greeted.
    Without a message, after `check_s` Slack is asked who we are, and after `quiet_s` the history is
    read, for a connection may be open and bring nothing; a message older than `settle_s` should
    have come. `hold_s`: how long new messages wait for what was missed. `margin_s`: how far before
    the cursor the backfill begins. `answer_s`: how long a slash command waits for its answer;
    `root_s`: how long messages wait for the first one of a thread.
    """

    ping_s: float = 5.0
    hello_s: float = 10.0
    check_s: float = 60.0
    quiet_s: float = 300.0
    settle_s: float = 10.0
    hold_s: float = 10.0
    margin_s: float = 60.0
    save_s: float = 3.0
    answer_s: float = 2.0
    root_s: float = 5.0
    timeout_s: float = 20.0
    transfer_s: float = 120.0
    close_s: float = 2.0
    first_s: float = 0.5
    longest_s: float = 30.0
