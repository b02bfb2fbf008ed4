"""The cost ledger: a row per settled model call."""

from datetime import datetime

from daemon.core.rows import UsageRow
from daemon.store.instants import to_db
from daemon.store.project import UsageAdded
from daemon.store.tables.rows import Rows

INSERT = """INSERT INTO usage (provider, model, session, turn, input_tokens, output_tokens, cached_tokens, usd, at)
    VALUES (?,?,?,?,?,?,?,?,?)"""
SUMS = """SELECT provider, model, COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cached_tokens),
    CASE WHEN COUNT(usd) = COUNT(*) THEN SUM(usd) END
    FROM usage WHERE at >= ?1 AND (?2 IS NULL OR session = ?2) GROUP BY provider, model ORDER BY provider, model"""


class UsageLedger(Rows):
    """The usage table."""

    def usage(self, since: datetime, session: str | None = None) -> list[UsageRow]:
        """What was used since then, a row per provider and model; a sum with an unknown price in it is unknown."""
        return [UsageRow(*found) for found in self._db.execute(SUMS, (to_db(since), session))]

    def insert_usage(self, session: str, turn_id: str, added: UsageAdded) -> None:
        """One settled call."""
        usage = added.usage
        spent = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.usd)
        self._db.execute(INSERT, (added.provider, added.model, session, turn_id, *spent, to_db(added.at)))
