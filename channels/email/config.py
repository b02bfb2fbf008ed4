"""[email] in config.toml: a mailbox, who may write to it, and what is done with mails."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from channels.settings import Accounts
from channels.transport import LOOPBACK

ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
"""A plain address: no quotes, no names, nothing that ends a line."""
ALLOWED = re.compile(rf"{ADDRESS.pattern}|\*?@[A-Za-z0-9.-]{{1,253}}")
HOST = re.compile(r"[A-Za-z0-9.:-]{0,253}")
FOLDER = re.compile(r'[^\x00-\x1f"\\\x7f-\U0010ffff]{1,200}')
TOKEN_URLS = {
    "google": "https://oauth2.googleapis.com/token",
    "microsoft": "https://login.microsoftonline.com/common/oauth2/v2.0/token",
}
IMAPS_PORT, IMAP_PORT, SUBMISSION_PORT, SMTPS_PORT = 993, 143, 587, 465


def _check(value: str, pattern: re.Pattern[str], example: str) -> str:
    if not pattern.fullmatch(value):
        raise ValueError(f"expected {example}, got {value!r}")
    return value


def _check_senders(
    values: tuple[str, ...], pattern: re.Pattern[str], example: str
) -> tuple[str, ...]:
    return tuple(_check(value, pattern, example).casefold() for value in values)


def _check_folder(value: str) -> str:
    if not FOLDER.fullmatch(value):
        raise ValueError(
            "expected a folder such as INBOX, as the server spells it (letters other than ASCII in"
            " modified UTF-7)"
        )
    return value


OptionalAddress = Annotated[
    str,
    AfterValidator(
        partial(
            _check,
            pattern=re.compile(f"({ADDRESS.pattern})?"),
            example="an address such as bot@example.org",
        )
    ),
]
Host = Annotated[
    str, AfterValidator(partial(_check, pattern=HOST, example="a host such as imap.example.org"))
]


def is_listed(address: str, listed: Sequence[str]) -> bool:
    """A list names this address, or all of its domain by "@example.org"."""
    address = address.casefold()
    domain = f"@{address.rpartition('@')[2]}"
    return any(one in (address, domain) or one == f"*{domain}" for one in listed)


class MailModel(BaseModel):
    """Refuses unknown keys; never shows what was typed, for it may be a password."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True
    )


class MailMatch(MailModel):
    """Which mails a rule is for: all that is given must fit. Patterns have "*" and "?"."""

    sender: str = Field(
        "", alias="from", description='who it claims to be from, such as "*@example.org"'
    )
    subject: str = Field("", description='such as "*invoice*"; a plain word may stand anywhere')
    list: str = Field("", description="the mailing list's id; a rule with it gets newsletters, too")
    attachment: str = Field("", description='the name of a file that came with it: "*.pdf"')


class MailRule(MailModel):
    """What is done with the mails that fit; the first rule that fits counts."""

    match: MailMatch = Field(MailMatch(), description="which mails; empty: every mail")
    prompt: str = Field("", max_length=10_000, description="what is to be done with such a mail")
    agent: str = Field("", description="the agent that does it; empty: the default one")
    notify: str = Field("", description="the conversation that is told; empty: that of [email]")
    reply: bool | None = Field(
        None, description="answer by mail, where the sender is proven and allowed; absent: as above"
    )
    ignore: bool = Field(False, description="do nothing with such mails")
    condition: dict[Literal["command", "file"], str] = Field(
        default_factory=dict,
        max_length=1,
        description="looked at first, without a model: the rule counts only while it holds",
    )


class OAuthConfig(MailModel):
    """[email.oauth]: instead of a password, as Gmail and Outlook ask for it."""

    provider: Literal["", "google", "microsoft"] = Field("", description="whose mailbox it is")
    client_id: str = Field("", description="of the app that you registered there")
    client_secret: str = Field("", repr=False, description="of that app; Microsoft needs none")
    refresh_token: str = Field("", repr=False, description="what the sign-in gave you, once")
    token_url: str = Field("", description="another server that gives out tokens")

    @property
    def url(self) -> str:
        """Where an access token is asked for."""
        return self.token_url or TOKEN_URLS.get(self.provider, "")


class EmailAccount(MailModel):
    """One mailbox."""

    imap_host: Host = Field("", description="the IMAP server; empty: no mailbox is watched")
    imap_port: int = Field(0, ge=0, le=65535, description="0: 993, or 143 without imap_tls")
    imap_tls: bool = Field(True, description="false only for a server on this machine")
    username: str = Field("", description="the mailbox's name there, mostly its address")
    password: str = Field("", repr=False, description="an app password; empty with [email.oauth]")
    folder: Annotated[str, AfterValidator(_check_folder)] = Field(
        "INBOX", description="the folder that is watched"
    )
    smtp_host: Host = Field("", description="the server that sends; empty: no mail is ever sent")
    smtp_port: int = Field(0, ge=0, le=65535, description="0: 587, where TLS begins by STARTTLS")
    smtp_tls: bool = Field(True, description="false only for a server on this machine")
    from_address: OptionalAddress = Field("", description="whom mails are from; empty: username")
    authserv_id: str = Field(
        "",
        description="the name under which your mail server says who wrote a mail"
        " (Authentication-Results), or microsoft; empty: no sender is ever proven",
    )
    allowed_senders: Annotated[
        tuple[str, ...],
        AfterValidator(
            partial(_check_senders, pattern=ALLOWED, example="ann@example.org, or @example.org")
        ),
    ] = Field(
        (), description="who may be answered, once it is proven that they wrote: addresses, @domain"
    )
    trusted_senders: Annotated[
        tuple[str, ...],
        AfterValidator(
            partial(
                _check_senders, pattern=ADDRESS, example="a whole address such as ann@example.org"
            )
        ),
    ] = Field(
        (), description="whose proven mails count as words said to the assistant: your own address"
    )
    reply: bool = Field(False, description="answer allowed senders by mail")
    notify: str = Field(
        "", description="the conversation that is told; empty: where the owner wrote last"
    )
    strangers_per_day: int = Field(
        300, ge=0, description="mails of unknown senders that are read in a day; 0: no limit"
    )
    poll_seconds: int = Field(
        60, ge=1, le=3600, description="how often a server without IDLE is asked"
    )
    oauth: OAuthConfig = Field(OAuthConfig(), description="instead of a password")
    rules: tuple[MailRule, ...] = Field((), description="what is done with which mail")

    @model_validator(mode="after")
    def _check(self) -> "EmailAccount":
        if not self.imap_host:
            return self
        for key, host, tls in (
            ("imap_tls", self.imap_host, self.imap_tls),
            ("smtp_tls", self.smtp_host, self.smtp_tls),
        ):
            if host and not tls and host not in LOOPBACK:
                raise ValueError(f"{key} = false sends the password in the clear; expected true")
        if not self.username or not self.username.isprintable():
            raise ValueError("expected a username beside imap_host")
        if self.oauth.refresh_token and not (self.oauth.url and self.oauth.client_id):
            raise ValueError("expected provider and client_id beside oauth.refresh_token")
        if not (self.password or self.oauth.refresh_token):
            raise ValueError("expected a password, or [email.oauth] with a refresh_token")
        if not ADDRESS.fullmatch(self.address):
            raise ValueError("expected from_address, for username is no address")
        if (self.trusted_senders or self.reply) and not self.smtp_host:
            raise ValueError("expected smtp_host beside trusted_senders and reply, to answer by")
        if any(not one.prompt and not one.ignore for one in self.rules):
            raise ValueError("rules: expected a prompt, or ignore = true, in each rule")
        return self

    @property
    def in_use(self) -> bool:
        """Whether it is started."""
        return bool(self.imap_host)

    @property
    def address(self) -> str:
        """Whom mails are from, and whose own mails are not taken for somebody's."""
        return self.from_address or self.username

    @property
    def own_addresses(self) -> tuple[str, ...]:
        """By which mails are addressed to the assistant, in small letters."""
        return self.address.casefold(), self.username.casefold()

    @property
    def allowed_user_ids(self) -> tuple[str, ...]:
        """Who may talk as on a chat platform."""
        return self.trusted_senders

    @property
    def owner_ids(self) -> tuple[str, ...]:
        """A mailbox is read by whoever has its password: nobody approves anything by mail."""
        return ()

    @property
    def ports(self) -> tuple[int, int]:
        """Of IMAP and SMTP."""
        imap = self.imap_port or (IMAPS_PORT if self.imap_tls else IMAP_PORT)
        return imap, self.smtp_port or SUBMISSION_PORT


class EmailConfig(EmailAccount):
    """The mailbox, and further ones under names of their own."""

    accounts: Accounts[EmailAccount] = Field(
        default_factory=dict, description='further mailboxes: [email.accounts.work] is "work/email"'
    )
