"""What people let a day cost beyond its limit (F2)."""

from datetime import datetime

from daemon.store.instants import to_db
from daemon.store.project import DayRaised
from daemon.store.tables.rows import Rows

INSERT = "INSERT INTO day_raises (at, tokens, usd) VALUES (?,?,?)"
SUMS = "SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(usd), 0.0) FROM day_raises WHERE at >= ?"


class DayRaises(Rows):
    """The day_raises table."""

    def day_raised(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD that people let the day cost beyond its limit since then."""
        tokens, usd = self._db.execute(SUMS, (to_db(since),)).fetchone()
        return int(tokens), float(usd)

    def insert_raise(self, raised: DayRaised) -> None:
        """One yes."""
        self._db.execute(INSERT, (to_db(raised.at), raised.tokens, raised.usd))
