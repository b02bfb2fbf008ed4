"""What goes to people: answers, notices, and questions, of which those that nobody began wait for
their turn (trust.md).
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime

from daemon.core.events import ApprovalAsked
from daemon.core.ids import is_mail_session
from daemon.core.messages import defuse
from daemon.core.provenance import find_taint
from daemon.core.rows import (
    EVENT_CHANNEL,
    GOAL_CHANNEL,
    SCHEDULE_CHANNEL,
    ApprovalRow,
    OutboxRow,
    SessionRow,
)
from daemon.core.trust import Label, join_sources
from daemon.store.tables.approvals import ApprovalTables
from daemon.store.tables.file_state import FileTables
from daemon.store.tables.messages import MessageTables
from daemon.store.tables.sessions import SessionTables
from daemon.store.tables.turns import TurnTables

SHOWN_OF_APPROVAL = ("call_id", "tool", "arguments", "effect", "expires", "preview")

NOTHING = "NOTHING"  # said by a run that was begun by itself and has nothing to say
WOKEN_CHANNELS = (EVENT_CHANNEL, SCHEDULE_CHANNEL, GOAL_CHANNEL)
WOKEN_PREFIXES = tuple(f"{channel}_" for channel in WOKEN_CHANNELS)
MAILED = "I answer by mail (/undo stops it as long as it is held):"
NOT_MAILED = (
    "I did not send this answer by mail, for it was made with what is yours ({what}). If it may go"
    " out, tell me here to send it."
)
THEY_WAIT = (
    "More questions wait ({count}) until one of these is answered or lapses. /deny all is for all,"
    " /status counts them."
)
MAX_OF_SOURCE, MAX_OF_CHANNEL, MAX_OPEN = 5, 20, 40  # questions that are put to the owner
SHOWN_CHANGES, MAX_NAME = 5, 80
MAX_WAITING = 200  # others that wait to be put
Source = tuple[str, str]  # and its channel
LAPSE = """UPDATE approvals SET state = 'pending', expires = asked_at WHERE state = 'waiting'
    AND n NOT IN (SELECT n FROM approvals WHERE state = 'waiting' ORDER BY n LIMIT ?)"""
PUT = "UPDATE approvals SET state = 'pending', expires = ? WHERE turn = ? AND call_id = ?"


def begins_by_itself(session: str) -> bool:
    """A session of an event, a schedule, a goal or a mail."""
    return session.startswith(WOKEN_PREFIXES) or is_mail_session(session)


def is_nothing(text: str) -> bool:
    """A run that was begun by itself has nothing to say."""
    return text.strip(" .!").upper() == NOTHING


def find_source(session: str) -> Source:
    """("email/work", "email") of "email/work:THREAD", ("event", "event") of "event_ID"."""
    place, _, rest = session.partition(":")
    source = place if rest else session.partition("_")[0]
    return source, source.partition("/")[0]


def can_put(source: Source, asked: Sequence[Source]) -> bool:
    """One more may be put, beside those that stand."""
    of_channel = sum(one[1] == source[1] for one in asked)
    is_full = of_channel >= MAX_OF_CHANNEL or len(asked) >= MAX_OPEN
    return not is_full and asked.count(source) < MAX_OF_SOURCE


def choose_next(waiting: Sequence[Source], asked: Sequence[Source]) -> int | None:
    """Which of those that wait, oldest first, is put now: the oldest of the source that has the
    fewest; None where there is no room.
    """
    fits = [at for at, source in enumerate(waiting) if can_put(source, asked)]
    return min(fits, key=lambda at: (asked.count(waiting[at]), at), default=None)


class Posting(SessionTables, MessageTables, TurnTables, ApprovalTables, FileTables):
    """What is posted to people, in the transaction of what it follows from."""

    def post_to_session(
        self,
        session: str,
        turn_id: str,
        kind: str,
        body: str,
        at: datetime,
        *,
        failed: bool = False,
    ) -> None:
        """A session that works for another has no people: the other's are told, but of its reply by
        that one.

        What came of an event or a schedule is a notice where the owner reads it, never an answer to
        its sender (A16).
        """
        own = self.get_session(session)
        told = self.get_session(own.root) if own and own.root else own
        turn = self.get_turn(turn_id)
        is_tainted = turn is not None and turn.label is Label.UNTRUSTED
        if kind != "approval" and turn and (turn.private or is_tainted):
            body = defuse(body)
        is_mail, reply = is_mail_session(session), kind == "reply"
        if own and told is not own and is_mail and reply and not failed:
            body = self._answer_mail(own, turn_id, body, at)
        if told is None or told.channel in ("", *WOKEN_CHANNELS):
            return
        woken = told is not own and begins_by_itself(session)
        if reply and told is not own and not woken:
            return
        if reply and not (is_mail and told is own):
            body = self._add_changes(turn_id, body, told.id, is_tainted)
        if told is not own:
            if reply and is_nothing(body):
                return
            if kind in ("reply", "notice"):
                kind = "notice"
                whose = f"{own.channel} {own.chat}" if own and woken else session
                whose = whose.rpartition(":")[0] if is_mail else whose
                if failed and woken and whose.startswith((SCHEDULE_CHANNEL, GOAL_CHANNEL)):
                    whose += " failed"
                body = f"[{whose}] {body}"
        row = OutboxRow(turn_id, -1, told.id, told.channel, told.chat, kind, body, at)
        part = self.post_delivery(row)
        if told is not own and kind == "notice":
            self.tell_model(told.id, turn_id, part)

    def _add_changes(self, turn_id: str, body: str, told: str, is_tainted: bool) -> str:
        """The answer, and what its turn changed: that is told though it has nothing else to say."""
        if not (changes := json.loads(self.get_changes(turn_id))):
            return body
        taint = find_taint(self.list_events(turn_id)) if is_tainted else None
        shown = [] if self.is_shared(told) else changes
        count = sum(files for _, _, files in changes)
        line = render_changes(shown, count, taint.by if taint else "")
        return line.strip() if is_nothing(body) else body + line

    def _answer_mail(self, own: SessionRow, turn_id: str, body: str, at: datetime) -> str:
        """Post the answer to a mail, where it is to be answered; what the owner is told.

        What was made with something of the owner's goes to nobody: they may send it themselves.
        """
        begun = self.get_turn_input(turn_id)
        if begun is None or not begun.message_id or is_nothing(body):
            return body
        private = join_sources(row.private for row in self.list_turns(own.id, -1))
        if private:
            return f"{NOT_MAILED.format(what=', '.join(private))}\n\n{body}"
        row = OutboxRow(turn_id, -1, own.id, own.channel, own.chat, "reply", body, at)
        self.post_delivery(row)
        return f"{MAILED}\n\n{body}"

    def is_begun_by_itself(self, turn_id: str) -> bool:
        """No person began the work that this turn is part of, but a time, a mail or an event."""
        while child := self.get_child(turn_id):
            turn_id = child.parent
        turn = self.get_turn(turn_id)
        return turn is not None and begins_by_itself(turn.session)

    def open_approval(self, session: str, turn_id: str, asked: ApprovalAsked, at: datetime) -> None:
        """The wait is a row; its label is what the turn had read when it asked. Calls that nobody
        began wait until they may ask.
        """
        turn, own = self.get_turn(turn_id), self.get_session(session)
        label = turn.label if turn else Label.UNTRUSTED
        row = ApprovalRow(turn=turn_id, session=session, label=label, asked_at=at, **asdict(asked))
        outside = own is None or own.label is Label.UNTRUSTED or self.is_begun_by_itself(turn_id)
        if outside and asked.call_id[0].isdigit():
            self.put_approval(replace(row, state="waiting"))
            self.ask_waiting(at, asked.expires)
            self._run(LAPSE, MAX_WAITING)
        else:
            self.put_approval(row)
            self._post_question(row, at)

    def ask_waiting(self, now: datetime, expires: datetime) -> None:
        """Put as many of those that wait as may stand; they can be answered until then."""
        rows, sources, asked = self._weigh(now)
        while (at := choose_next(sources, asked)) is not None:
            row = rows.pop(at)
            asked.append(sources.pop(at))
            self._run(PUT, expires, row.turn, row.call_id)
            self._post_question(replace(row, expires=expires), now)

    def tell_of_waiting(self, now: datetime) -> None:
        """One line in each chat where they will stand, when none waited there before."""
        chats: dict[str, list[ApprovalRow]] = {}
        for row in self.list_approvals("waiting"):
            own = self.get_session(row.session)
            chats.setdefault(own.root or own.id if own else "", []).append(row)
        for chat, rows in chats.items():
            where = self.get_session(chat)
            if where and where.channel and not any(row.told for row in rows):
                to = chat, where.channel, where.chat, "notice", THEY_WAIT.format(count=len(rows))
                self.post_delivery(OutboxRow(rows[0].turn, -1, *to, now))
        self._run("UPDATE approvals SET told = 1 WHERE state = 'waiting'")

    def is_crowded(self, turn: str, session: str, own: int, now: datetime) -> bool:
        """One more of this turn, beside its own, may neither stand nor wait: so many wait, or its
        parent would be at work meanwhile.
        """
        rows, sources, asked = self._weigh(now)
        source, child = self.find_source(session), self.get_child(turn)
        if source not in sources and can_put(source, asked + [source] * own):
            return False
        return len(rows) + own >= MAX_WAITING or (child is not None and not child.report)

    def is_due(self, now: datetime) -> bool:
        """Some wait that may be put, or that nobody was told of."""
        rows, sources, asked = self._weigh(now)
        return not all(row.told for row in rows) or choose_next(sources, asked) is not None

    def _weigh(self, now: datetime) -> tuple[list[ApprovalRow], list[Source], list[Source]]:
        """Those that wait, oldest first, and where each is from; where the open ones are from."""
        rows = self.list_approvals("waiting")
        asked = (row for row in self.list_approvals("pending") if row.expires > now)
        stand = [self.find_source(row.session) for row in asked]
        return rows, [self.find_source(row.session) for row in rows], stand

    def find_source(self, session: str) -> Source:
        """Where the work began that this session is part of."""
        return find_source(self.find_top_session(session))

    def _post_question(self, row: ApprovalRow, at: datetime) -> None:
        shown = {name: getattr(row, name) for name in SHOWN_OF_APPROVAL}
        shown["expires"] = row.expires.isoformat()
        body = json.dumps(shown, ensure_ascii=False)
        self.post_to_session(row.session, row.turn, "approval", body, at)


def render_changes(changes: Sequence[tuple[str, int, int]], count: int, taint: str) -> str:
    """A last line of an answer: the files that its turn changed, each with how many lines it has
    more, many of one command as a folder with their number, or how many files where others read it.
    `taint`: where a stranger's words in them may be from.
    """
    shown = [
        _show_name(path)
        + (f" ({files} files)" if path.endswith("/") else f" ({lines:+})" if lines else "")
        for path, lines, files in changes[:SHOWN_CHANGES]
    ]
    if more := count - sum(files for _, _, files in changes[:SHOWN_CHANGES]):
        shown.append(f"{more} more" if shown else "1 file" if count == 1 else f"{count} files")
    words = f" Words from outside may stand there ({taint})." if taint else ""
    return f"\n\nChanged: {', '.join(shown)}.{words} /undo takes that back."


def _show_name(path: str) -> str:
    """Whoever made the file chose it."""
    plain = path if path.isprintable() and "`" not in path else ascii(path).replace("`", "'")
    return f"`{plain[:MAX_NAME]}`"
