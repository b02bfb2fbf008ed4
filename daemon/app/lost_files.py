"""Files that a HOME had once, and that are absent or empty at a start: told, never silently new."""

import sqlite3
from contextlib import suppress
from pathlib import Path

from daemon.settings.paths import Paths
from daemon.store.migrate import open_readonly

MEMORY_SINCE = 13  # the journal's schema of the first version with a file of memories
MEMORY_LOST = (
    "{path} {state}, though the journal has turns. I go on with an empty memory; what was said"
    " stays in the journal. To have the facts of a backup: stop the daemon, then `aidaemon backup"
    " restore`."
)
JOURNAL_LOST = (
    "{path} {state}, though {home} was in use before ({signs}). A new journal is begun: no"
    " conversation, schedule or approval of before is known. If you have a backup: stop the daemon,"
    " then `aidaemon backup restore`."
)


def list_lost(paths: Paths) -> list[str]:
    """What to tell of a HOME that was in use and has no journal, or no memory, any more."""
    return [*filter(None, (_describe_journal(paths), _describe_memory(paths)))]


def _find_state(path: Path) -> str:
    """ "" for a file that holds something."""
    if not path.exists():
        return "is absent"
    return "" if path.stat().st_size else "is empty"


def _describe_journal(paths: Paths) -> str:
    if not (state := _find_state(paths.journal)):
        return ""
    signs = (paths.lastgood, paths.memory, paths.undo, paths.backups)
    left = ", ".join(path.name for path in signs if path.exists())
    if not left:
        return ""
    return JOURNAL_LOST.format(path=paths.journal, state=state, home=paths.home, signs=left)


def _describe_memory(paths: Paths) -> str:
    if not (state := _find_state(paths.memory)):
        return ""
    with suppress(sqlite3.Error), open_readonly(paths.journal) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version >= MEMORY_SINCE and db.execute("SELECT 1 FROM turns").fetchone():
            return MEMORY_LOST.format(path=paths.memory, state=state)
    return ""
