"""What days cost: model calls that were settled, what people allowed beyond the limit, reservations
of calls that were cut off.
"""

from datetime import datetime

from daemon.core.messages import Usage
from daemon.core.rows import UsageRow
from daemon.store.tables.base import Table, to_db

DAY = 86_400_000_000
ADD_USAGE = """INSERT INTO daily_usage VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?) ON CONFLICT (day,
    session, provider, model) DO UPDATE SET calls = calls + 1, input_tokens = input_tokens +
    excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens, cached_tokens =
    cached_tokens + excluded.cached_tokens, usd = usd + excluded.usd, unpriced = unpriced +
    excluded.unpriced"""
SUM_USAGE = """SELECT provider, model, SUM(calls), SUM(input_tokens), SUM(output_tokens),
    SUM(cached_tokens), CASE WHEN SUM(unpriced) = 0 THEN SUM(usd) END FROM daily_usage WHERE day
    >= ?1 AND (?2 IS NULL OR session = ?2) GROUP BY provider, model ORDER BY provider, model"""
ADD_RAISE = """INSERT INTO daily_totals (day, raised_tokens, raised_usd) VALUES (?, ?, ?) ON
    CONFLICT (day) DO UPDATE SET raised_tokens = raised_tokens + excluded.raised_tokens,
    raised_usd = raised_usd + excluded.raised_usd"""
SUM_RAISES = """SELECT COALESCE(SUM(raised_tokens), 0), COALESCE(SUM(raised_usd), 0.0) FROM
    daily_totals WHERE day >= ?"""
ADD_LOST = """INSERT INTO daily_totals (day, lost_tokens, lost_usd) SELECT ?, reserved_tokens,
    reserved_usd FROM turns WHERE id = ? AND (reserved_tokens OR reserved_usd) ON CONFLICT (day)
    DO UPDATE SET lost_tokens = lost_tokens + excluded.lost_tokens, lost_usd = lost_usd +
    excluded.lost_usd"""
SUM_LOST = """SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(usd), 0.0) FROM (
    SELECT lost_tokens AS tokens, lost_usd AS usd FROM daily_totals WHERE day >= ?
    UNION ALL SELECT reserved_tokens, reserved_usd FROM turns WHERE ended_at IS NULL)"""


class UsageTable(Table):
    """The daily_usage and daily_totals tables. Days are UTC; a span counts from the beginning of
    its first day.
    """

    def sum_usage(self, since: datetime, session: str | None = None) -> list[UsageRow]:
        """A sum with an unknown price in it is unknown."""
        return [
            UsageRow(*found)
            for found in self._db.execute(SUM_USAGE, (to_db(since) // DAY, session))
        ]

    def add_usage(
        self, session: str, provider: str, model: str, usage: Usage, at: datetime
    ) -> None:
        """Count a model call that belongs to no turn."""
        tokens = usage.input_tokens, usage.output_tokens, usage.cached_tokens
        self._run(
            ADD_USAGE,
            to_db(at) // DAY,
            session,
            provider,
            model,
            *tokens,
            usage.usd or 0.0,
            usage.usd is None,
        )

    def sum_day_raises(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD that people let the day cost beyond its limit since then (F2)."""
        return self._db.execute(SUM_RAISES, (to_db(since) // DAY,)).fetchone()

    def add_day_raise(self, tokens: int, usd: float, at: datetime) -> None:
        self._run(ADD_RAISE, to_db(at) // DAY, tokens, usd)

    def sum_unsettled(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD reserved since then for model calls that were cut off: they count as spent
        (F2).
        """
        return self._db.execute(SUM_LOST, (to_db(since) // DAY,)).fetchone()

    def lose_reservation(self, turn_id: str, at: datetime) -> None:
        """The open model call of the turn was cut off: nobody will say what it cost, so its
        reservation counts.
        """
        self._run(ADD_LOST, to_db(at) // DAY, turn_id)
