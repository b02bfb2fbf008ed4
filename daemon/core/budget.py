"""The tree of budgets: what a call may cost is held in every account above it before the call, and
settled after (F2).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from daemon.core import value


@value
class Cost:
    """Tokens sent, tokens received, USD."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.usd + other.usd,
        )

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            max(0.0, self.usd - other.usd),
        )


@value
class Caps:
    """What an account may use up: tokens sent, tokens of both kinds, USD. None is no limit of that
    kind.
    """

    input_tokens: int | None = None
    tokens: int | None = None
    usd: float | None = None


@value
class Shortage:
    """Which account stands in the way, of what kind, and what it has used up of how much; `missing`
    is what there would have to be on top, for the call that was meant.
    """

    budget: str
    kind: str
    used: float
    cap: float
    missing: float = 0.0


@dataclass(slots=True, eq=False)
class Budget:
    """One node: a turn, or the day. Whatever is held or spent here is held and spent in all
    accounts above, too.
    """

    name: str
    caps: Caps = field(default_factory=Caps)
    parent: "Budget | None" = None
    spent: Cost = field(default_factory=Cost)
    reserved: Cost = field(default_factory=Cost)
    reservations: int = 0

    def iter_ancestors(self) -> Iterator["Budget"]:
        """This one, and all above it."""
        account: Budget | None = self
        while account:
            yield account
            account = account.parent

    def find_exhausted(self) -> Shortage | None:
        """The first account, from here up, that has nothing left."""
        return next(
            (
                short
                for account in self.iter_ancestors()
                if (short := account._check(Cost(), reached=True))
            ),
            None,
        )

    def find_shortage(self, cost: Cost) -> Shortage | None:
        """The first account, from here up, in which this would go over the limit."""
        return next(
            (short for account in self.iter_ancestors() if (short := account._check(cost))), None
        )

    def reserve(self, cost: Cost) -> None:
        """Set it aside, all the way up. Ask `short` before, with no await in between."""
        for account in self.iter_ancestors():
            account.reserved += cost
            account.reservations += 1

    def settle(self, held: Cost, actual: Cost) -> None:
        """The call is over: this is what it cost."""
        for account in self.iter_ancestors():
            account.reserved -= held
            account.spent += actual
            account.reservations -= 1

    def compute_remaining(self) -> Caps:
        """The least that any account from here up has left; None where none has a limit."""
        remaining = [account._remaining() for account in self.iter_ancestors()]
        return Caps(
            min(
                (one.input_tokens for one in remaining if one.input_tokens is not None),
                default=None,
            ),
            min((one.tokens for one in remaining if one.tokens is not None), default=None),
            min((one.usd for one in remaining if one.usd is not None), default=None),
        )

    def get_ancestor(self, name: str) -> "Budget":
        """The account of this name, from here up. Raises KeyError."""
        for account in self.iter_ancestors():
            if account.name == name:
                return account
        raise KeyError(name)

    def _remaining(self) -> Caps:
        used, caps = self.spent + self.reserved, self.caps
        return Caps(
            None if caps.input_tokens is None else max(0, caps.input_tokens - used.input_tokens),
            None
            if caps.tokens is None
            else max(0, caps.tokens - used.input_tokens - used.output_tokens),
            None if caps.usd is None else max(0.0, caps.usd - used.usd),
        )

    def _check(self, cost: Cost, *, reached: bool = False) -> Shortage | None:
        used = self.spent if reached else self.spent + self.reserved + cost
        spent = self.spent
        table = (
            ("sent", self.caps.input_tokens, used.input_tokens, spent.input_tokens),
            (
                "tokens",
                self.caps.tokens,
                used.input_tokens + used.output_tokens,
                spent.input_tokens + spent.output_tokens,
            ),
            ("usd", self.caps.usd, used.usd, spent.usd),
        )
        for kind, cap, wanted, gone in table:
            if cap is not None and (wanted > cap or (reached and wanted >= cap)):
                return Shortage(self.name, kind, gone, cap, wanted - cap)
        return None
