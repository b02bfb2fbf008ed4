"""Small things that a room of the house keeps under a name: it alone knows what the text means."""

from daemon.store.tables.base import Table

ONE = "SELECT value FROM kept WHERE kind = ? AND name = ?"
ALL = "SELECT name, value FROM kept WHERE kind = ? ORDER BY name"
PUT = "INSERT INTO kept (kind, name, value) VALUES (?,?,?) ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value"
DROP = "DELETE FROM kept WHERE kind = ? AND name = ?"


class KeyValueTable(Table):
    """The kept table."""

    def kept(self, kind: str, name: str) -> str | None:
        """What is kept under this name; None when nothing is."""
        found = self._db.execute(ONE, (kind, name)).fetchone()
        return None if found is None else str(found[0])

    def all_kept(self, kind: str) -> dict[str, str]:
        """Everything of this kind, by name, in order of the names."""
        return dict(self._db.execute(ALL, (kind,)))

    def keep(self, kind: str, name: str, value: str) -> None:
        """Keep it, instead of what was there."""
        self._db.execute(PUT, (kind, name, value))

    def drop(self, kind: str, name: str) -> bool:
        """Keep it no more; False when nothing was there."""
        return self._db.execute(DROP, (kind, name)).rowcount == 1
