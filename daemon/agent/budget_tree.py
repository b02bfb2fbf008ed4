"""The tree of budgets: what a call may cost is held in every account above it before the call, and
settled after (F2).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from daemon.core import value
from daemon.core.errors import Shortage

KINDS = ("sent", "tokens", "usd")
CAPS_OF = attrgetter("input_tokens", "tokens", "usd")
NO_CAPS = (None, None, None)


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

    def amounts(self) -> tuple[float, ...]:
        """How much of each kind."""
        return self.input_tokens, self.input_tokens + self.output_tokens, self.usd


@value
class Caps:
    """What an account may use up: tokens sent, tokens of both kinds, USD. None is no limit of that
    kind.
    """

    input_tokens: int | None = None
    tokens: int | None = None
    usd: float | None = None


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

    def find_shortage(self, cost: Cost | None = None) -> Shortage | None:
        """The first account, from here up, in which this would go over the limit; without a cost,
        the first that has nothing left.
        """
        for account in self.iter_ancestors():
            caps = CAPS_OF(account.caps)
            if caps == NO_CAPS:
                continue
            spent = account.spent.amounts()
            used = spent if cost is None else (account.spent + account.reserved + cost).amounts()
            for kind, cap, gone, wanted in zip(KINDS, caps, spent, used, strict=True):
                if cap is not None and (wanted > cap or (wanted == cap and cost is None)):
                    left = account.reservations
                    return Shortage(account.name, kind, gone, cap, wanted - cap, left)
        return None

    def reserve(self, cost: Cost) -> None:
        """Set it aside, all the way up. Ask `find_shortage` before, with no await in between."""
        for account in self.iter_ancestors():
            account.reserved += cost
            account.reservations += 1

    def add_spent(self, cost: Cost) -> None:
        """It has cost this, all the way up."""
        for account in self.iter_ancestors():
            account.spent += cost

    def settle(self, held: Cost, actual: Cost) -> None:
        """The call is over: this is what it cost."""
        for account in self.iter_ancestors():
            rest = account.reserved
            account.reserved = Cost(
                rest.input_tokens - held.input_tokens,
                rest.output_tokens - held.output_tokens,
                max(0.0, rest.usd - held.usd),
            )
            account.reservations -= 1
            account.spent += actual

    def compute_remaining(self) -> Caps:
        """The least that any account from here up has left; None where none has a limit."""
        least: list[Any] = [None] * len(KINDS)
        for account in self.iter_ancestors():
            used = (account.spent + account.reserved).amounts()
            for at, cap in enumerate(CAPS_OF(account.caps)):
                if cap is not None:
                    rest = max(0, cap - used[at])
                    least[at] = rest if least[at] is None else min(rest, least[at])
        return Caps(*least)
