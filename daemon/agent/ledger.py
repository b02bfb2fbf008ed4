"""What the daemon has used up today, in tokens and USD (A19)."""

from dataclasses import dataclass
from datetime import UTC, datetime

from daemon.agent.config import BudgetConfig
from daemon.agent.halting import Today
from daemon.core.clock import Clock
from daemon.core.messages import Usage
from daemon.store.protocol import ReadTx, Store

EVER = datetime(1, 1, 1, tzinfo=UTC)


def midnight(now: datetime) -> datetime:
    """The beginning of this day, UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(slots=True)
class Ledger:
    """Sums of the running day, kept in memory beside the usage rows they come from."""

    clock: Clock
    budget: BudgetConfig
    _day: datetime = EVER
    _tokens: int = 0
    _usd: float = 0.0
    _unpriced: bool = False

    async def load(self, store: Store) -> None:
        """Take up what the journal says of today."""
        self._day = midnight(self.clock.now())

        def look(tx: ReadTx) -> tuple[int, float, bool]:
            rows = tx.usage(self._day)
            tokens = sum(row.input_tokens + row.output_tokens for row in rows)
            return tokens, sum(row.usd or 0.0 for row in rows), any(row.usd is None for row in rows)

        self._tokens, self._usd, self._unpriced = await store.read(look)

    def add(self, usage: Usage) -> None:
        """A call was settled."""
        self._turn_the_page()
        self._tokens += usage.input_tokens + usage.output_tokens
        self._usd += usage.usd or 0.0
        self._unpriced |= usage.usd is None

    def today(self) -> Today:
        """So far."""
        self._turn_the_page()
        return Today(self._tokens, self._usd, self._unpriced, self.budget.daily_tokens, self.budget.daily_usd)

    def _turn_the_page(self) -> None:
        day = midnight(self.clock.now())
        if day > self._day:
            self._day, self._tokens, self._usd, self._unpriced = day, 0, 0.0, False
