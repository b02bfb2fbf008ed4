"""[mcp.NAME] in config.toml: a server whose tools the assistant may use."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from daemon.core.trust import Effect
from daemon.tools.base import ToolError
from daemon.tools.shell.network import MAX_DOMAINS, parse_domain

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,30}(?<!_)")
EXPECTED_NAME = (
    "1 to 31 letters, digits, '-' and single '_', for it stands before the '__' in the names"
    " of its tools"
)


def _check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a server: expected {EXPECTED_NAME}")
    return name


def _check_url(url: str) -> str:
    if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        raise ValueError(f"{url!r} is no address: expected http://... or https://...")
    return url


def _check_domain(text: str) -> str:
    try:
        parse_domain(text)
    except ToolError as error:
        raise ValueError(str(error)) from error
    return text


ServerName = Annotated[str, AfterValidator(_check_name)]


class McpConfig(BaseModel):
    """One server, and what its tools do. What the server says of itself counts for nothing here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str = Field(
        "", description="the program that is the server; it speaks on stdin and stdout"
    )
    args: list[str] = Field([], description="its arguments")
    env: dict[str, str] = Field(
        {}, description="its environment, beside PATH, HOME and LANG; nothing of the daemon's own"
    )
    url: Annotated[str, AfterValidator(_check_url)] = Field(
        "", description="instead of a command: where the server listens"
    )
    headers: dict[str, str] = Field({}, description="sent to that address with every request")
    default_effect: Effect = Field(
        Effect.DESTRUCTIVE,
        description="the effect of a tool not named in effects; the default asks before every call",
    )
    effects: dict[str, Effect] = Field(
        {}, description='by tool: "read", "fetch", "write", "egress" or "destructive"'
    )
    critical: dict[str, list[str]] = Field(
        {}, description="by tool: the arguments that decide where it acts; absent: all"
    )
    people: Literal["owner", "all"] = Field(
        "owner", description='for whom its tools work: "owner", or "all" who may talk'
    )
    trusted_output: list[str] = Field(
        [], description="tools whose results are as good as your own words"
    )
    records: list[str] = Field(
        [],
        description="tools whose structured results list your own records: you may name one by its"
        " title, or by what its title begins with",
    )
    sandbox: Literal["auto", "off"] = Field(
        "auto", description='"off": a command runs with all that your user may do'
    )
    network: bool = Field(False, description="in the sandbox, a command may reach the network")
    domains: list[Annotated[str, AfterValidator(_check_domain)]] = Field(
        [],
        max_length=MAX_DOMAINS,
        description="in the sandbox, the hosts that a command may reach, by HTTP and HTTPS:"
        ' "example.com", "*.example.com", "example.com:8443"',
    )
    paths: list[str] = Field(
        [],
        description="in the sandbox, what a command may read and write beside system programs;"
        " in the workspace see write",
    )
    write: Literal["out", "workspace"] = Field(
        "out",
        description='where in the workspace a command may write, if its paths lead there: "out", in'
        ' out/NAME alone; or "workspace". What it writes comes over at the end of each call',
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("expected either command or url")
        if self.domains and (self.network or self.url or self.sandbox == "off"):
            raise ValueError("domains are for a command in the sandbox, without network = true")
        return self

    @property
    def is_unsandboxed(self) -> bool:
        """Its process can write wherever its owner can, and leave others behind."""
        return bool(self.command) and self.sandbox == "off"
