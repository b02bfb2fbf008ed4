"""What the daemon has used up today, in tokens and USD: the account above all others (A19, F2)."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from daemon.agent.config import BudgetConfig
from daemon.agent.halting import DAY, Today
from daemon.core.budget import Account, Caps, Cost
from daemon.core.clock import Clock
from daemon.core.events import BudgetRaised
from daemon.core.messages import Usage
from daemon.core.rows import UsageRow
from daemon.store.protocol import ReadTx, Store

EVER = datetime(1, 1, 1, tzinfo=UTC)
Sum = tuple[int, float]
Sums = tuple[list[UsageRow], Sum, Sum]


def midnight(now: datetime) -> datetime:
    """The beginning of this day, UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(slots=True)
class Ledger:
    """The running day's account, kept in memory beside the usage rows that it comes from."""

    clock: Clock
    budget: BudgetConfig
    account: Account = field(default_factory=lambda: Account(DAY))
    _day: datetime = EVER
    _known: float = 0.0
    _unpriced: bool = False
    _raised: tuple[int, float] = (0, 0.0)

    async def load(self, store: Store) -> None:
        """Take up what the journal says of today; what was set aside for calls that were cut off counts as spent."""
        self._day = midnight(self.clock.now())
        rows, self._raised, (tokens, usd) = await store.read(self._look)
        self.account.spent = sum((self._cost(row) for row in rows), Cost(tokens, 0, usd))
        self._known, self._unpriced = sum(row.usd or 0.0 for row in rows), any(row.usd is None for row in rows)
        self._cap()

    def _look(self, tx: ReadTx) -> Sums:
        return tx.usage(self._day), tx.day_raised(self._day), tx.unsettled(self._day)

    def _cost(self, row: UsageRow) -> Cost:
        usd = self.budget.worst(row.input_tokens, row.output_tokens) if row.usd is None else row.usd
        return Cost(row.input_tokens, row.output_tokens, usd)

    def charged(self, usage: Usage) -> float:
        """What budgets count for a call: its price, or the worst case where that is not known; and it is noted."""
        self._known += usage.usd or 0.0
        self._unpriced |= usage.usd is None
        return self.budget.worst(usage.input_tokens, usage.output_tokens) if usage.usd is None else usage.usd

    def today(self) -> Today:
        """So far."""
        self.turn_the_page()
        spent, tokens = self.account.spent, self.account.caps.tokens or 0
        return Today(spent.sent + spent.received, self._known, self._unpriced, tokens, self.account.caps.usd or 0.0)

    def raised(self, event: BudgetRaised) -> None:
        """A person let this day cost more."""
        tokens, usd = self._raised
        self._raised = (tokens + event.day_tokens, usd + event.day_usd)
        self._cap()

    def take(self, budget: BudgetConfig) -> None:
        """From now on a day may cost so much; what people let it cost beyond that stays."""
        self.budget = budget
        self._cap()

    def turn_the_page(self) -> None:
        """A new day begins with nothing spent; what is held by running calls stays held."""
        day = midnight(self.clock.now())
        if day > self._day:
            self._day, self._known, self._unpriced, self._raised = day, 0.0, False, (0, 0.0)
            self.account.spent = Cost()
            self._cap()

    def _cap(self) -> None:
        tokens, usd = self._raised
        self.account.caps = Caps(
            tokens=self.budget.daily_tokens + tokens if self.budget.daily_tokens else None,
            usd=self.budget.daily_usd + usd if self.budget.daily_usd else None,
        )
