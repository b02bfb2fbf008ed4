"""What channels need after a restart: cursors, updates that could not be read, drafts on screen,
questions shown, reactions.
"""

from datetime import datetime

from daemon.store.tables.base import Table, to_db

GET_CURSOR = "SELECT cursor FROM cursors WHERE channel = ?"
PUT_CURSOR = "INSERT OR REPLACE INTO cursors (channel, cursor) VALUES (?, ?)"
ADD_UNREADABLE = (
    "INSERT OR REPLACE INTO unreadable_updates (name, at, why, raw) VALUES (?, ?, ?, ?)"
)
TRIM_UNREADABLE = """DELETE FROM unreadable_updates WHERE n NOT IN
    (SELECT n FROM unreadable_updates ORDER BY n DESC LIMIT ?)"""
LIST_UNREADABLE = "SELECT name, why, raw FROM unreadable_updates ORDER BY n"
GET_DRAFT = "SELECT message FROM drafts WHERE turn = ?"
PUT_DRAFT = "INSERT OR REPLACE INTO drafts (turn, message) VALUES (?, ?)"
LIST_DRAFTS = "SELECT turn, message FROM drafts ORDER BY turn"
REMOVE_DRAFT = "DELETE FROM drafts WHERE turn = ?"
GET_SHOWN = "SELECT shown FROM shown_questions WHERE session = ? AND person = ?"
PUT_SHOWN = "INSERT OR REPLACE INTO shown_questions (session, person, shown) VALUES (?, ?, ?)"
REMOVE_REACTION = "DELETE FROM reactions WHERE turn = ? AND sender = ?"
ADD_REACTION = "INSERT INTO reactions (turn, sender, emoji) VALUES (?, ?, ?)"
LIST_REACTIONS = "SELECT emoji FROM reactions WHERE turn = ? ORDER BY n"


class ChannelStateTable(Table):
    """The cursors, unreadable_updates, drafts, shown_questions and reactions tables."""

    def get_cursor(self, channel: str) -> str:
        """How far the channel has been read; "" for never."""
        return self._text(GET_CURSOR, channel) or ""

    def put_cursor(self, channel: str, cursor: str) -> None:
        """How far the channel has been read."""
        self._run(PUT_CURSOR, channel, cursor)

    def add_unreadable(self, name: str, at: datetime, why: str, raw: str, limit: int) -> None:
        """An update that could not be read; only the latest `limit` are kept."""
        self._run(ADD_UNREADABLE, name, to_db(at), why, raw)
        self._run(TRIM_UNREADABLE, limit)

    def list_unreadable(self) -> list[tuple[str, str, str]]:
        """(name, why, raw) of the updates that could not be read, oldest first."""
        return self._db.execute(LIST_UNREADABLE).fetchall()

    def get_draft(self, turn_id: str) -> str | None:
        """The message that shows the draft of this turn's reply; None when nothing was noted."""
        return self._text(GET_DRAFT, turn_id)

    def put_draft(self, turn_id: str, message: str) -> None:
        """The message that shows the draft of this turn's reply."""
        self._run(PUT_DRAFT, turn_id, message)

    def list_drafts(self) -> dict[str, str]:
        """All of them, by turn."""
        return dict(self._db.execute(LIST_DRAFTS))

    def remove_draft(self, turn_id: str) -> None:
        """The draft is gone, or has become the reply."""
        self._run(REMOVE_DRAFT, turn_id)

    def get_shown_questions(self, session: str, person: str) -> str | None:
        """JSON of the questions that this person was last shown."""
        return self._text(GET_SHOWN, session, person)

    def put_shown_questions(self, session: str, person: str, shown: str) -> None:
        """JSON of the questions that this person was shown."""
        self._run(PUT_SHOWN, session, person, shown)

    def put_reaction(self, turn_id: str, sender: str, emoji: str) -> None:
        """The sender's only reaction to this turn's reply; "" takes it away."""
        self._run(REMOVE_REACTION, turn_id, sender)
        if emoji:
            self._run(ADD_REACTION, turn_id, sender, emoji)

    def list_reactions(self, turn_id: str) -> list[str]:
        """What people reacted with to this turn's reply, oldest first."""
        return [found[0] for found in self._db.execute(LIST_REACTIONS, (turn_id,))]
