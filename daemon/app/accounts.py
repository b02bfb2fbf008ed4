"""Which accounts of which platforms the config has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from channels.base import Channel
from daemon import plugins
from daemon.config.model import Config
from daemon.core.roles import Role
from daemon.delivery.addresses import name_of
from daemon.people.people import listed

KINDS = ("telegram", "slack", "discord")


class Account(Protocol):
    """What every channel's config says of one account."""

    @property
    def bot_token(self) -> str:
        """"" where the channel is not configured."""
        ...

    @property
    def allowed_user_ids(self) -> Sequence[str | int]:
        """Who may talk and give work."""
        ...

    @property
    def owner_ids(self) -> Sequence[str | int]:
        """Who is the owner there."""
        ...


class Make(Protocol):
    """A channel's class."""

    def __call__(self, config: Account, *, name: str) -> Channel:
        """The channel of this account, under its name in the house."""
        ...


@dataclass(frozen=True, slots=True)
class Configured:
    """One account of the config."""

    name: str
    kind: str
    account: Account
    section: str

    def load(self) -> None:
        """Import its library: that takes a while, and may be done in a thread. Raises ConfigError."""
        plugins.load("channels", self.kind)

    def open(self) -> Channel:
        """The channel, its library imported now. Raises ConfigError."""
        make = cast(Make, plugins.load("channels", self.kind))
        return make(self.account, name=self.name)

    def roles(self) -> dict[str, Role]:
        """What the config says of people; an empty list admits nobody."""
        return listed(self.account.allowed_user_ids, self.account.owner_ids)


def muted(config: Config) -> list[str]:
    """Sections that list people but have no token: what stands there does nothing."""
    sections = {name: account for kind in KINDS for name, account in _accounts(config, kind)}
    return [name for name, one in sections.items() if not one.bot_token and (one.allowed_user_ids or one.owner_ids)]


def _accounts(config: Config, kind: str) -> list[tuple[str, Account]]:
    section = getattr(config, kind)
    return [(kind, section), *((f"{kind}.accounts.{name}", account) for name, account in section.accounts.items())]


def configured(config: Config) -> list[Configured]:
    """All accounts that have a token, the main one of each kind first."""
    found = []
    for kind in KINDS:
        found += [
            Configured(name_of(kind, place.removeprefix(kind).removeprefix(".accounts.")), kind, account, place)
            for place, account in _accounts(config, kind)
            if account.bot_token
        ]
    return found
