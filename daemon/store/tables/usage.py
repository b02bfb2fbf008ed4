"""The cost ledger: a row per settled model call; and what was set aside for those that never were.

What people let a day cost beyond its limit (F2).
"""

from datetime import datetime

from daemon.core.errors import UNBILLED
from daemon.core.rows import UsageRow
from daemon.store.projections import DayLimitRaised, UsageAdded
from daemon.store.tables.base import Table, to_db

INSERT_USAGE = """INSERT INTO usage (provider, model, session, turn, input_tokens, output_tokens, cached_tokens, usd, at)
    VALUES (?,?,?,?,?,?,?,?,?)"""
USAGE_SUMS = """SELECT provider, model, COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cached_tokens),
    CASE WHEN COUNT(usd) = COUNT(*) THEN SUM(usd) END
    FROM usage WHERE at >= ?1 AND (?2 IS NULL OR session = ?2) GROUP BY provider, model ORDER BY provider, model"""

REFUSED = ", ".join(f"'{kind.value}'" for kind in UNBILLED)
UNSETTLED = f"""WITH calls AS (
        SELECT e.turn, e.seq, e.kind, LEAD(CASE WHEN e.kind <> 'ModelFailed' OR NOT json_valid(e.payload)
            OR json_extract(e.payload, '$.error') IN ({REFUSED}) THEN e.kind END)
            OVER (PARTITION BY e.turn ORDER BY e.seq) AS following
        FROM turns AS t JOIN events AS e ON e.turn = t.id
        WHERE (t.ended_at IS NULL OR t.ended_at >= ?1) AND e.at >= ?1
        AND e.kind IN ('ModelAsked', 'Consulting', 'ModelReplied', 'Consulted', 'ModelFailed'))
    SELECT COALESCE(SUM(json_extract(payload, '$.reserved_tokens')), 0),
        COALESCE(SUM(json_extract(payload, '$.reserved_usd')), 0.0)
    FROM calls JOIN events AS e ON e.turn = calls.turn AND e.seq = calls.seq
    WHERE calls.kind IN ('ModelAsked', 'Consulting') AND json_valid(payload)
    AND COALESCE(following, '') NOT IN ('ModelReplied', 'Consulted', 'ModelFailed')"""


class UsageTable(Table):
    """The usage table."""

    def sum_usage(self, since: datetime, session: str | None = None) -> list[UsageRow]:
        """What was used since then, a row per provider and model; a sum with an unknown price in it is unknown."""
        return [UsageRow(*found) for found in self._db.execute(USAGE_SUMS, (to_db(since), session))]

    def sum_unsettled(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD reserved since then for model calls that were cut off: they count as spent (F2)."""
        tokens, usd = self._db.execute(UNSETTLED, (to_db(since),)).fetchone()
        return int(tokens), float(usd)

    def insert_usage(self, session: str, turn_id: str, added: UsageAdded) -> None:
        """One settled call."""
        usage = added.usage
        spent = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.usd)
        self._db.execute(
            INSERT_USAGE, (added.provider, added.model, session, turn_id, *spent, to_db(added.at))
        )


INSERT_RAISE = "INSERT INTO day_raises (at, tokens, usd) VALUES (?,?,?)"
RAISE_SUMS = (
    "SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(usd), 0.0) FROM day_raises WHERE at >= ?"
)


class DayRaiseTable(Table):
    """The day_raises table."""

    def sum_day_raises(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD that people let the day cost beyond its limit since then."""
        tokens, usd = self._db.execute(RAISE_SUMS, (to_db(since),)).fetchone()
        return int(tokens), float(usd)

    def insert_raise(self, raised: DayLimitRaised) -> None:
        """One yes."""
        self._db.execute(INSERT_RAISE, (to_db(raised.at), raised.tokens, raised.usd))
