"""Messages in, in order of acceptance, and out, in order of creation, their parts counted from 1;
what channels need after a restart.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from daemon.core import value
from daemon.core.rows import (
    EVENT_CHANNEL,
    GOAL_CHANNEL,
    SCHEDULE_CHANNEL,
    UNSENT_STATES,
    InboxRow,
    OutboxRow,
)
from daemon.core.trust import OWNER_NAME, Label, Sources
from daemon.store.tables.base import Get, List, RowMapper, Run, Table, Value, from_db

INBOX = RowMapper(InboxRow, "inbox")
OPEN = "state IN ('new', 'ordered')"  # as the index inbox_open has it
TYPED = "state GLOB 'typed:*'"  # as the index inbox_typed has it
RENEW = "UPDATE inbox SET state = 'new', steers = '' WHERE id = ?"
BLANK_ANSWERS = """UPDATE outbox SET body = '' WHERE kind = 'command' AND state = 'sent'
    AND turn IN (SELECT turn FROM inbox WHERE state IN ('command', 'ordered')
    AND body LIKE ?1 || '%')"""
BLANK_COMMANDS = """UPDATE inbox SET body = ?1 WHERE state IN ('command', 'ordered')
    AND body LIKE ?1 || '%'"""
IS_ANSWERING = f"""SELECT 1 FROM inbox WHERE turn = ?1 AND state IN ('new', 'ordered')
    UNION SELECT 1 FROM outbox WHERE turn = ?1 AND state IN {UNSENT_STATES}"""
LIST_RECALLING = """SELECT turn, seq, payload FROM events WHERE json_valid(payload) AND (
    kind = 'UserSaid' AND json_array_length(payload, '$.memories') > 0
    OR kind = 'ToolFinished' AND payload ->> '$.tool' IN ('recall', 'recall_others'))"""
LIST_SENDERS = """SELECT person, name FROM display_names
    UNION SELECT DISTINCT sender, '' FROM inbox"""
SETTLE = "UPDATE inbox SET state = ? WHERE id = ?"
SAME_KEY = "WHERE channel = ? AND account = ? AND external_id = ?"

OUTBOX = RowMapper(OutboxRow, "outbox")
NEXT_PART = "SELECT COALESCE(MAX(part), 0) + 1 FROM outbox WHERE turn = ?"
UNSENT = f"state IN {UNSENT_STATES}"  # as the index outbox_unsent has it
IN_STATE = "state = ?1 AND (?2 IS NULL OR channel = ?2) AND (?3 IS NULL OR session = ?3) ORDER BY n"
OF_CHAT = "channel = ?1 AND (chat = ?2 OR (chat >= ?2 || ':' AND chat < ?2 || ';'))"
DELIVERED_AS = f"""WHERE {OF_CHAT}
    AND instr(' ' || platform_message_id || ' ', ' ' || ?3 || ' ') ORDER BY n DESC LIMIT 1"""
MARK = """UPDATE outbox SET state = ?1, attempts = attempts + (?1 = 'sending'), error = ?5,
    platform_message_id = CASE WHEN ?2 = '' THEN platform_message_id ELSE ?2 END,
    sent_at = CASE WHEN ?1 = 'sent' AND sent_at IS NULL THEN ?6 ELSE sent_at END WHERE turn = ?3
    AND part = ?4 AND state NOT IN ('held', 'withdrawn')"""
OF_CONVERSATION = """EXISTS (SELECT 1 FROM sessions WHERE sessions.id = outbox.session
    AND ? IN (sessions.id, sessions.root))"""
OUTCOMES = """INDEXED BY outbox_outcomes WHERE noted = 0 AND due IS NOT NULL
    AND kind = 'mail' AND state IN ('sent', 'failed', 'withdrawn')
    AND (session = ?1 OR EXISTS (SELECT 1 FROM sessions
    WHERE sessions.id = outbox.session AND root = ?1)) ORDER BY n LIMIT 20"""
UNDELIVERED = """INDEXED BY outbox_untold WHERE state = 'failed' AND noted = 0 AND session = ?1
    AND kind IN ('reply', 'file') ORDER BY n LIMIT 20"""
TOLD = """INDEXED BY outbox_told WHERE noted = 2 AND session = ?1 AND EXISTS (SELECT 1
    FROM outbox AS shown WHERE shown.n = COALESCE(outbox.joined_to, outbox.n)
    AND shown.state IN ('sent', 'sending', 'uncertain')
    AND COALESCE(shown.sent_at, shown.created_at) > COALESCE((SELECT cleared_at FROM sessions
    WHERE id = ?1), 0)) ORDER BY n"""
UNTOLD = " UNION ALL ".join(
    f"SELECT * FROM ({OUTBOX.select}{where})" for where in (OUTCOMES, UNDELIVERED, TOLD)
)
HAS_UNTOLD = "SELECT " + " OR ".join(
    f"EXISTS (SELECT 1 FROM outbox {where})" for where in (OUTCOMES, UNDELIVERED, TOLD)
)
TELL = "UPDATE outbox SET noted = 2, role = ? WHERE turn = ? AND part = ?"
KEEP_TOLD = """UPDATE outbox SET noted = 1 WHERE noted = 2 AND session = ?1 AND n NOT IN
    (SELECT n FROM outbox WHERE noted = 2 AND session = ?1 ORDER BY n DESC LIMIT 20)"""
ORIGIN = """SELECT own.role, (SELECT role FROM inbox WHERE turn = own.turn ORDER BY n LIMIT 1),
    own.own_length, shown.state, COALESCE(shown.sent_at, shown.created_at), turns.label,
    turns.private, sessions.channel, sessions.chat, sessions.label FROM outbox AS own
    JOIN outbox AS shown ON shown.n = COALESCE(own.joined_to, own.n)
    LEFT JOIN turns ON turns.id = own.turn LEFT JOIN sessions ON sessions.id = turns.session
    WHERE own.turn = ? AND own.part = ?"""
JOIN = """UPDATE outbox SET state = 'sent', error = 'in the message of ' || ?1, joined_to =
    (SELECT n FROM outbox WHERE turn = ?1 AND part = ?2)
    WHERE turn = ?3 AND part = ?4 AND state = 'held'"""
HELD_TIMES = """SELECT MIN(due), MAX(created_at) FROM outbox WHERE state = 'held'
    AND due IS NOT NULL"""
HOLD = "UPDATE outbox SET state = 'held', due = ? WHERE turn = ? AND part = ? AND state = 'new'"
RELEASE = "UPDATE outbox SET state = 'new' WHERE state = 'held' AND due <= ?"
REBASE = """UPDATE outbox SET created_at = ?1,
    due = CASE kind WHEN 'notice' THEN due ELSE due - created_at + ?1 END
    WHERE state = 'held' AND created_at > ?1"""
HAS_LATER = """SELECT EXISTS (SELECT 1 FROM outbox WHERE state = 'held' AND due > ?
    AND kind = 'notice')"""
ADVANCE = "UPDATE outbox SET due = ?1 WHERE state = 'held' AND due > ?1 AND kind = 'notice'"

MOVE_CHAT = """INSERT INTO moved_chats (channel, chat, first, at) VALUES (?, ?, ?, ?)
    ON CONFLICT DO NOTHING"""
REMOVE_DRAFTS = f"""DELETE FROM drafts WHERE turn IN
    (SELECT id FROM turns WHERE session IN (SELECT id FROM sessions WHERE {OF_CHAT}))"""

ADD_UNREADABLE = (
    "INSERT OR REPLACE INTO unreadable_updates (name, at, why, raw) VALUES (?, ?, ?, ?)"
)
TRIM_UNREADABLE = """DELETE FROM unreadable_updates WHERE n NOT IN
    (SELECT n FROM unreadable_updates ORDER BY n DESC LIMIT ?)"""
PUT_SHOWN = "INSERT OR REPLACE INTO shown_questions (session, person, shown) VALUES (?, ?, ?)"
REMOVE_REACTION = "DELETE FROM reactions WHERE turn = ? AND sender = ?"
ADD_REACTION = "INSERT INTO reactions (turn, sender, emoji) VALUES (?, ?, ?)"


@value
class SettledRow:
    """What became of a delivery, for the model of its conversation; whether the turn that it is
    from was trusted, and what of the owner's that had read. `row` has the text that is its own,
    and how far the message is that it went out in; `shown_at`: when that was sent. `source`: what
    it came of ("schedule morning"); `role`: of the person behind it.
    """

    row: OutboxRow
    is_trusted: bool
    private: Sources
    shown_at: datetime
    source: str
    role: str


def _name_source(channel: str | None, chat: str, label: str) -> str:
    """ "event github", without a name that a stranger may have chosen."""
    if channel is None:
        return "reminder"
    is_ours = label == Label.TRUSTED and channel in (SCHEDULE_CHANNEL, GOAL_CHANNEL)
    return f"{channel} {chat}" if is_ours or channel == EVENT_CHANNEL else channel


class MessageTables(Table):
    """The inbox, outbox, cursors, moved_chats, unreadable_updates, drafts, shown_questions and
    reactions tables.
    """

    get_input = Get[[str], InboxRow](INBOX, "WHERE id = ?")

    get_turn_input = Get[[str], InboxRow](INBOX, "WHERE turn = ? ORDER BY n LIMIT 1")
    """The message that began, or will begin, this turn."""

    def blank_commands(self, word: str) -> None:
        """Of commands that begin so nothing else is kept, nor what was answered: it may show what
        is to be forgotten.
        """
        self._run(BLANK_ANSWERS, word)
        self._run(BLANK_COMMANDS, word)

    def list_recalling(self) -> list[tuple[str, int, str]]:
        """Turn, number and payload of each event that shows what was recalled."""
        return list(self._do(LIST_RECALLING))

    replace_payload = Run[[str, str, int]](
        "UPDATE events SET payload = ? WHERE turn = ? AND seq = ?"
    )

    def is_answering(self, turn: str) -> bool:
        """Its message, a command perhaps, or an answer to it is on its way."""
        return self._value(IS_ANSWERING, turn) is not None

    def list_senders(self) -> list[tuple[str, str]]:
        """All who sent something, as messages name them, with what they call themselves."""
        return list(self._do(LIST_SENDERS))

    def list_turns_of(self, sender: str) -> list[str]:
        """The turns that their messages began, or steered."""
        return [turn for (turn,) in self._do("SELECT turn FROM inbox WHERE sender = ?", sender)]

    def is_sender(self, sender: str, role: str) -> bool:
        """A message of theirs came from somebody with this role."""
        query = "SELECT 1 FROM inbox WHERE sender = ? AND role = ? LIMIT 1"
        return self._value(query, sender, role) is not None

    count_new_inputs = Value[[], int](f"SELECT COUNT(*) FROM inbox WHERE {OPEN} AND state = 'new'")
    """Messages of all sessions that wait for a turn."""

    list_waiting_inputs = List[[str], InboxRow](
        INBOX, f"WHERE {OPEN} AND state = 'new' AND session = ? ORDER BY n"
    )
    """Messages of a session in state new, oldest first; those that steer a turn included."""

    def list_inputs(self, state: str) -> list[InboxRow]:
        """Messages in this state, in order of acceptance."""
        index = (
            OPEN if state in ("new", "ordered") else TYPED if state.startswith("typed:") else "1"
        )
        return self._all(INBOX, f"WHERE {index} AND state = ? ORDER BY n", state)

    def accept_input(self, row: InboxRow) -> InboxRow:
        """Insert the message. The same (channel, account, external_id) again changes nothing and
        gives the first one's row (K2).
        """
        if self._insert(INBOX, "ON CONFLICT (channel, account, external_id) DO NOTHING", row):
            return row
        return self.find_input(row.channel, row.account, row.external_id) or row

    def find_input(self, channel: str, account: str, external_id: str) -> InboxRow | None:
        """What was accepted from there by this id (K2)."""
        return self._one(INBOX, SAME_KEY, channel, account, external_id)

    def set_input_state(self, input_id: str, state: str) -> None:
        """`steers` is emptied when the state is new again."""
        if state == "new":
            self._run(RENEW, input_id)
        else:
            self._run(SETTLE, state, input_id)

    def list_outbox(
        self, state: str, channel: str | None = None, session: str | None = None
    ) -> list[OutboxRow]:
        """Deliveries in this state, in order of creation."""
        where = f"WHERE {UNSENT} AND " if state in UNSENT_STATES else "WHERE "
        return self._all(OUTBOX, where + IN_STATE, state, channel, session)

    list_turn_outbox = List[[str], OutboxRow](OUTBOX, "WHERE turn = ? ORDER BY part")

    get_delivery = Get[[str, int], OutboxRow](OUTBOX, "WHERE turn = ? AND part = ?")

    list_unsent = List[[str], OutboxRow](OUTBOX, f"WHERE {UNSENT} AND channel = ? ORDER BY n")
    """What this channel still has to deliver or to make sure of, in order of creation."""

    list_with_buttons = List[[], OutboxRow](OUTBOX, "WHERE buttons = 1 ORDER BY n")
    """Questions that stand in a chat with buttons, in order of creation."""

    is_shared = Value[[str], bool](
        "SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ? AND message_id <> '')"
    )
    """A message came to it where others read along."""

    has_messages = Value[[str], bool](
        "SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ? AND body NOT LIKE '/%')"
    )
    """Somebody has written in it, and not only commands."""

    has_later_input = Value[[str, str], bool](
        "SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ? AND n > (SELECT n FROM inbox WHERE"
        " id = ?))"
    )
    """Something came to the session after this message."""

    has_private_messages = Value[[str], bool](
        "SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ? AND message_id = ''"
        " AND role = 'owner' AND channel <> 'agent' AND body NOT LIKE '/%')"
    )
    """An owner has written in it where nobody reads along. A command proves nothing: some have no
    message of their own.
    """

    has_other_senders = Value[[str], bool](
        "SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ? AND role <> 'owner')"
    )
    """Somebody else than the owner has written in it."""

    def find_delivery(self, channel: str, chat: str, message_id: str) -> OutboxRow | None:
        """The latest delivery that became this message of the chat, or of a thread in it, for
        platforms do not always say which; None for a message of somebody else's.
        """
        if not message_id or " " in message_id:
            return None
        return self._one(OUTBOX, DELIVERED_AS, channel, chat, message_id)

    def post_delivery(self, row: OutboxRow) -> int:
        """Something to deliver that is not the outcome of an event; the part is chosen here when
        negative. Gives the part.
        """
        unsent = row.channel == "web" or (row.channel, row.kind) == ("terminal", "approval")
        # web clients read the run, a terminal asks at its prompt
        state = "sent" if row.state == "new" and unsent else row.state
        part = self._value(NEXT_PART, row.turn) if row.part < 0 else row.part
        row = replace(row, state=state, part=part)
        self._insert(OUTBOX, "", row)
        self.posted |= row.state in ("new", "held")
        return row.part

    def mark_delivery(
        self,
        turn_id: str,
        part: int,
        state: str,
        platform_message_id: str = "",
        error: str = "",
        at: datetime | None = None,
    ) -> None:
        """Set the state of a delivery; `error` says why. `sending` counts one more attempt. What is
        held or withdrawn stays so. `at`: when it was sent; None for when it was posted.
        """
        self._run(MARK, state, platform_message_id, turn_id, part, error, at)

    list_outgoing = List[[str], OutboxRow](
        OUTBOX,
        f"WHERE due IS NOT NULL AND kind IN ('mail', 'reply') AND {OF_CONVERSATION}"
        " ORDER BY n DESC LIMIT 100",
    )
    """What this conversation, and what works for it, had for others than the owner, latest first:
    the last hundred.
    """

    def get_held_times(self) -> tuple[datetime, datetime] | None:
        """When the first of those that are held is due, and when the last was made."""
        first, last = self._do(HELD_TIMES).fetchone()
        return None if first is None else (from_db(first), from_db(last))

    def release_held(self, now: datetime) -> None:
        """What is due by now is new. Where the clock was set back to before a message was made,
        the message waits its whole time from now; a notice waits for its time of day.
        """
        self._run(REBASE, now)
        self.posted |= self._run(RELEASE, now)

    list_held_notices = List[[datetime], OutboxRow](
        OUTBOX, "WHERE state = 'held' AND kind = 'notice' AND due <= ? ORDER BY n"
    )
    """Those that are due by then, in order of creation."""

    list_waiting = List[[str], OutboxRow](
        OUTBOX, "WHERE state = 'held' AND kind = 'notice' AND session = ? ORDER BY n"
    )
    """What a conversation is told later."""

    has_notices_after = Value[[datetime], bool](HAS_LATER)
    """One of those that are told later is due after this."""

    advance_notices = Run[[datetime]](ADVANCE)
    """They are told by then."""

    def hold_delivery(self, turn_id: str, part: int, due: datetime) -> None:
        """It is new until now, and is told when it is due."""
        self.posted |= self._run(HOLD, due, turn_id, part)

    def join_deliveries(self, first: OutboxRow, others: Sequence[OutboxRow]) -> None:
        """They go out within the first, whose body has their texts, too."""
        for row in others:
            self._run(JOIN, first.turn, first.part, row.turn, row.part)
        body = "\n\n".join(row.body for row in (first, *others))
        query = "UPDATE outbox SET body = ?, own_length = ? WHERE turn = ? AND part = ?"
        self._run(query, body, len(first.body), first.turn, first.part)

    withdraw = Run[[str, str, int]](
        "UPDATE outbox SET state = 'withdrawn', error = ? WHERE turn = ? AND part = ?"
        " AND state = 'held'"
    )
    """Whether it was held still; then it is never sent. The first argument says by what."""

    has_outcomes = Value[[str], bool](HAS_UNTOLD)
    """There is something in `list_outcomes`."""

    def list_outcomes(self, session: str) -> list[SettledRow]:
        """What the session's model was not told yet: messages to others that have left or will not,
        those of its agents too; its own answers that were not delivered; what work that began by
        itself has shown in its chat since that was cleared.
        """
        rows = [OUTBOX.load(found) for found in self._do(UNTOLD, session)]
        return [self._find_origin(row) for row in rows]

    def _find_origin(self, row: OutboxRow) -> SettledRow:
        """A reminder has no turn: it was told for a person, or may hold a stranger's words."""
        found = self._do(ORIGIN, row.turn, row.part).fetchone()
        role, begun_by, length, state, shown_at, label, private, *where = found
        return SettledRow(
            replace(row, body=row.body[:length], state=state),
            bool(role) if label is None else label == Label.TRUSTED,
            tuple(json.loads(private or "[]")),
            from_db(shown_at),
            _name_source(*where),
            role or begun_by or OWNER_NAME,
        )

    def note_outcomes(self, settled: Sequence[str]) -> None:
        """The model was told of these, named as TURN/PART."""
        for turn, _, part in (one.rpartition("/") for one in settled):
            self._run("UPDATE outbox SET noted = 1 WHERE turn = ? AND part = ?", turn, int(part))

    def tell_model(self, session: str, turn: str, part: int, role: str | None = None) -> None:
        """What is shown here, this chat's model is told, too, of the latest twenty. `role`: of the
        person behind it, "" for what may be a stranger's words; None where its turn says it.
        """
        self._run(TELL, role, turn, part)
        self._run(KEEP_TOLD, session)

    return_delivery = Run[[str, str, int]](
        "UPDATE outbox SET state = 'failed', error = ?, noted = 0 WHERE turn = ? AND part = ?"
        " AND state = 'sent'"
    )
    """It was sent, and has come back; whether that is news. The first argument says why."""

    note_failure = Run[[datetime, str, int]](
        "UPDATE outbox SET failed_at = ? WHERE turn = ? AND part = ?"
    )
    """It has failed for good, and the owner is to see it."""

    list_failed = List[[datetime], OutboxRow](
        OUTBOX, "WHERE failed_at > ? ORDER BY failed_at DESC, n DESC"
    )
    """What has failed since then and was not seen by the owner, latest first."""

    forget_failed = Run[[]]("UPDATE outbox SET failed_at = NULL WHERE failed_at IS NOT NULL")
    """The owner has seen them."""

    give_up_deliveries = Run[[str]](
        "UPDATE outbox SET state = 'failed', noted = 1, error = ? WHERE state IN ('new', 'sending',"
        " 'uncertain', 'held')"
    )
    """Nothing that waits is sent."""

    remove_cursors = Run[[]]("DELETE FROM cursors")
    """Each channel begins with what comes from now on."""

    def set_buttons(self, turn_id: str, part: int, shown: bool) -> None:
        """Whether the delivered question stands in the chat with buttons."""
        self._run("UPDATE outbox SET buttons = ? WHERE turn = ? AND part = ?", shown, turn_id, part)

    get_cursor = Value[[str], str](
        "SELECT COALESCE(MAX(cursor), '') FROM cursors WHERE channel = ?"
    )
    """How far the channel has been read; "" for never."""

    put_cursor = Run[[str, str]]("INSERT OR REPLACE INTO cursors (channel, cursor) VALUES (?, ?)")

    def move_chat(self, channel: str, old: str, new: str, at: datetime) -> dict[str, str]:
        """The platform calls this chat `new` from now on. The messages in the old one are out of
        reach: their drafts and buttons are forgotten. Gives `list_moved_chats`.
        """
        first = self.list_moved_chats(channel).get(old, old)
        if first != new and self._run(MOVE_CHAT, channel, new, first, at):
            self._run(REMOVE_DRAFTS, channel, first)
            self._run(f"UPDATE outbox SET buttons = 0 WHERE {OF_CHAT}", channel, first)
        return self.list_moved_chats(channel)

    def list_moved_chats(self, channel: str) -> dict[str, str]:
        """The first id of each chat of the channel that was moved, which the journal keeps, by its
        later ids, the latest last.
        """
        query = "SELECT chat, first FROM moved_chats WHERE channel = ? ORDER BY n"
        return dict(self._do(query, channel).fetchall())

    has_moved_since = Value[[str, str, datetime], bool](
        "SELECT EXISTS (SELECT 1 FROM moved_chats WHERE channel = ? AND first = ? AND at > ?)"
    )
    """The ids of its messages of before mean nothing now."""

    def add_unreadable(self, name: str, at: datetime, why: str, raw: str, limit: int) -> None:
        """An update that could not be read; only the latest `limit` are kept."""
        self._run(ADD_UNREADABLE, name, at, why, raw)
        self._run(TRIM_UNREADABLE, limit)

    def list_unreadable(self) -> list[tuple[str, str, str]]:
        """(name, why, raw) of the updates that could not be read, oldest first."""
        return self._do("SELECT name, why, raw FROM unreadable_updates ORDER BY n").fetchall()

    get_draft = Value[[str], str | None]("SELECT message FROM drafts WHERE turn = ?")
    """The message that shows the draft of this turn's reply."""

    put_draft = Run[[str, str]]("INSERT OR REPLACE INTO drafts (turn, message) VALUES (?, ?)")

    def list_drafts(self) -> dict[str, str]:
        """All of them, by turn."""
        return dict(self._do("SELECT turn, message FROM drafts ORDER BY turn").fetchall())

    remove_draft = Run[[str]]("DELETE FROM drafts WHERE turn = ?")
    """The draft is gone, or has become the reply."""

    get_shown_questions = Value[[str, str], str | None](
        "SELECT shown FROM shown_questions WHERE session = ? AND person = ?"
    )
    """JSON of the questions that this person was last shown."""

    put_shown_questions = Run[[str, str, str]](PUT_SHOWN)

    def put_reaction(self, turn_id: str, sender: str, emoji: str) -> None:
        """The sender's only reaction to this turn's reply; "" takes it away."""
        self._run(REMOVE_REACTION, turn_id, sender)
        if emoji:
            self._run(ADD_REACTION, turn_id, sender, emoji)

    def list_reactions(self, turn_id: str) -> list[str]:
        """What people reacted with to this turn's reply, oldest first."""
        query = "SELECT emoji FROM reactions WHERE turn = ? ORDER BY n"
        return [emoji for (emoji,) in self._do(query, turn_id)]
