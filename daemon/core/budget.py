"""The tree of budgets: what a call may cost is held in every account above it before the call, and settled after (F2)."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens sent, tokens received, USD."""

    sent: int = 0
    received: int = 0
    usd: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.sent + other.sent, self.received + other.received, self.usd + other.usd)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.sent - other.sent, self.received - other.received, max(0.0, self.usd - other.usd))


@dataclass(frozen=True, slots=True)
class Caps:
    """What an account may use up: tokens sent, tokens of both kinds, USD. None is no limit of that kind."""

    sent: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """Which account stands in the way, of what kind, and what it has used up of how much; `missing` is what there would have to
    be on top, for the call that was meant.
    """

    account: str
    kind: str
    used: float
    cap: float
    missing: float = 0.0


@dataclass(slots=True, eq=False)
class Account:
    """One node: a turn, or the day. Whatever is held or spent here is held and spent in all accounts above, too."""

    name: str
    caps: Caps = Caps()
    above: "Account | None" = None
    spent: Cost = field(default_factory=Cost)
    held: Cost = field(default_factory=Cost)
    holders: int = 0

    def chain(self) -> Iterator["Account"]:
        """This one, and all above it."""
        account: Account | None = self
        while account:
            yield account
            account = account.above

    def over(self) -> Shortage | None:
        """The first account, from here up, that has nothing left."""
        return next((short for account in self.chain() if (short := account._short(Cost(), reached=True))), None)

    def short(self, cost: Cost) -> Shortage | None:
        """The first account, from here up, in which this would go over the limit."""
        return next((short for account in self.chain() if (short := account._short(cost))), None)

    def hold(self, cost: Cost) -> None:
        """Set it aside, all the way up. Ask `short` before, with no await in between."""
        for account in self.chain():
            account.held += cost
            account.holders += 1

    def settle(self, held: Cost, actual: Cost) -> None:
        """The call is over: this is what it cost."""
        for account in self.chain():
            account.held -= held
            account.spent += actual
            account.holders -= 1

    def left(self) -> Caps:
        """The least that any account from here up has left; None where none has a limit."""
        rooms = [account._room() for account in self.chain()]
        return Caps(
            min((room.sent for room in rooms if room.sent is not None), default=None),
            min((room.tokens for room in rooms if room.tokens is not None), default=None),
            min((room.usd for room in rooms if room.usd is not None), default=None),
        )

    def named(self, name: str) -> "Account":
        """The account of this name, from here up. Raises KeyError."""
        for account in self.chain():
            if account.name == name:
                return account
        raise KeyError(name)

    def _room(self) -> Caps:
        used, caps = self.spent + self.held, self.caps
        return Caps(
            None if caps.sent is None else max(0, caps.sent - used.sent),
            None if caps.tokens is None else max(0, caps.tokens - used.sent - used.received),
            None if caps.usd is None else max(0.0, caps.usd - used.usd),
        )

    def _short(self, cost: Cost, *, reached: bool = False) -> Shortage | None:
        used = self.spent if reached else self.spent + self.held + cost
        spent = self.spent
        table = (
            ("sent", self.caps.sent, used.sent, spent.sent),
            ("tokens", self.caps.tokens, used.sent + used.received, spent.sent + spent.received),
            ("usd", self.caps.usd, used.usd, spent.usd),
        )
        for kind, cap, wanted, gone in table:
            if cap is not None and (wanted > cap or (reached and wanted >= cap)):
                return Shortage(self.name, kind, gone, cap, wanted - cap)
        return None
