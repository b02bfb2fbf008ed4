"""Questions to people: who may answer, how they are shown, and what an answer permits from then on
(A6, A15, B8).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import field, replace

from pydantic import TypeAdapter

from channels.markup.approval_prompt import describe_effect
from channels.markup.sanitize import escape_invisible, find_suspicious
from daemon.agent.system_questions import how_to_store, parse_system_question
from daemon.core import value
from daemon.core.clock import Clock, show_time
from daemon.core.errors import UsageError
from daemon.core.events import Answer, ApprovalAsked
from daemon.core.ids import NewId, make_short_code
from daemon.core.rows import (
    EXACT_CALL,
    LASTING_ANSWERS,
    OUTSIDE_SCOPE,
    ApprovalRow,
    GrantBounds,
    GrantRow,
    NotAllowedToAnswer,
    SessionRow,
    grant_from_answer,
    is_call,
    may_answer_question,
)
from daemon.core.trust import ASK_TOOL, SECRET_TOOL, Label, Person, ToolApprovals
from daemon.core.turn import PLAN_TOOL
from daemon.sessions.manager import SessionManager
from daemon.settings.secrets import SecretStore
from daemon.store.journal import Store, Tx
from daemon.tools.calls import CHANGED_NOTE
from daemon.tools.policy.grants import is_active, pattern_error

MAX_CHARS = 500
ALL_SESSIONS = "*"
OUTSIDE_WARNING = "! this turn has read text from outside; it may not be your wish"
ANSWER_HINT = (
    "Use /approve 1, /approve all, /deny 2 REASON or /deny all; /approve show 1 shows one whole."
    " The code of a question may stand in place of its number, in any chat."
)

ApprovalRef = tuple[str, str]


@value
class ApprovalService:
    """Answers and permissions, for every channel and client. `asked_by`: what the config says
    about each tool. `secrets`: where those are kept that a question asks for.
    """

    store: Store
    sessions: SessionManager
    clock: Clock
    new_id: NewId
    secrets: SecretStore
    asked_by: ToolApprovals = ToolApprovals()
    keeping: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def keep_secret(self, turn: str, call_id: str, value: str, by: Person) -> bool:
        """Keep what a question asks for, for the host that it names, and answer it so (H2); False
        when it is not pending. Raises NotAllowedToAnswer, UsageError, ConfigError.
        """
        call, _, question = call_id.partition("/")
        now = self.clock.now()

        def look(tx: Tx) -> ApprovalRow | None:
            row = tx.get_approval(turn, call)
            is_open = row and row.state == "pending" and row.expires > now
            if not (row and is_open and _is_meant(tx, row, question, Answer.ONCE)):
                return None
            _check_person(tx, row, Answer.ONCE, by)
            return row

        row = await self.store.read(look)
        asked = parse_system_question(row.tool, row.arguments) if row else None
        if row is None or asked is None or row.tool != SECRET_TOOL:
            return False
        name, host = asked.secret
        async with self.keeping:  # of two at once, the second finds it answered
            former = await asyncio.to_thread(self.secrets.keep_for, name, value, host)
            if await self.answer(*ref_of(row), Answer.ONCE, by):
                return True
            await asyncio.to_thread(self.secrets.restore, name, former, host)
        return False

    async def answer(
        self,
        turn: str,
        call_id: str,
        answer: Answer,
        by: Person,
        reason: str = "",
        bounds: GrantBounds = EXACT_CALL,
    ) -> GrantRow | bool:
        """Answer one question, once; False when it is not pending, else the permission that the
        answer gave, or True. The `reason` of a CHOICE is the option. Raises NotAllowedToAnswer, and
        UsageError for bounds and for what is no answer to such a question.

        `call_id` may be that of `ref_of`: then it is no answer to the same call asked anew.

        `by` is who was recognised just now: a person removed since the question was asked may
        not answer it.
        """
        now, name = self.clock.now(), self.new_id()[-6:]
        call_id, _, question = call_id.partition("/")

        def work(tx: Tx) -> tuple[SessionRow | None, GrantRow | bool]:
            row = tx.get_approval(turn, call_id)
            if row is None or not _is_meant(tx, row, question, answer):
                return None, False
            self._check_kind(row, answer, reason)
            _check_person(tx, row, answer, by)
            said = "" if row.tool == SECRET_TOOL else reason  # who says no may say it there
            _check_bounds(row, answer, bounds)
            where = _grant_scope(tx, row.session, answer)
            grant = grant_from_answer(
                row, answer, bounds, name=name, where=where, by=by.name, now=now
            )
            if row.tool == PLAN_TOOL:
                grant = None  # it is for its turn, however it is approved
            answered = tx.answer_approval(turn, call_id, answer, by.name, said, now)
            if answered and grant:
                for old in tx.list_grants(ALL_SESSIONS):
                    if not is_active(old, now):
                        tx.revoke_grant(old.id)
                tx.add_grant(grant)
            return tx.get_session(row.session), answered is not None and (grant or True)

        session, done = await self.store.write(work)
        if done and session:
            self.sessions.wake_turn(session, turn)
        return done

    def _check_kind(self, row: ApprovalRow, answer: Answer, reason: str) -> None:
        """Raises UsageError for what is no answer to such a question."""
        if answer is Answer.DENY:
            return
        asked = None if is_call(row) else parse_system_question(row.tool, row.arguments)
        if asked and row.tool == ASK_TOOL:
            if answer is not Answer.CHOICE or not reason:
                raise UsageError("Choose one of its options, or write the answer as a message.")
            if reason not in asked.options:
                options = ", ".join(asked.options)
                raise UsageError(f"Expected one of: {options}. Nothing was answered.")
        elif answer in (Answer.CHOICE, Answer.TEXT):
            raise UsageError("This waits for a yes or no. Nothing was answered.")
        elif asked and row.tool == SECRET_TOOL and not self.secrets.is_kept_for(*asked.secret):
            raise UsageError(f"It is not stored yet. {how_to_store(*asked.secret)}")

    async def list_grants(self, session: str = ALL_SESSIONS) -> list[GrantRow]:
        """Active permissions: of this session and of conversations from outside, or all."""
        now, scopes = self.clock.now(), (session, "", OUTSIDE_SCOPE)
        rows = await self.store.read(lambda tx: tx.list_grants(ALL_SESSIONS))
        is_all = session == ALL_SESSIONS
        return [row for row in rows if is_active(row, now) and (is_all or row.session in scopes)]

    async def revoke_grant(self, grant_id: str) -> bool:
        """False when there is none of that id."""
        return await self.store.write(lambda tx: tx.revoke_grant(grant_id))


@value
class ShownApprovals:
    """What a person was last shown in a conversation: its questions in the order of their numbers,
    and those shown whole.

    A number keeps its meaning: a question that is gone leaves its number to no other (A6). Each
    person has their own.
    """

    listed: tuple[ApprovalRef, ...] = ()
    whole: frozenset[ApprovalRef] = frozenset()


SHOWN = TypeAdapter(ShownApprovals)


def _check_person(tx: Tx, row: ApprovalRow, answer: Answer, by: Person) -> None:
    """Raises NotAllowedToAnswer."""
    if not is_allowed_to_answer(tx, row, answer, by):
        asked, who = f"{row.tool}: {row.effect.value}", f"{by.name}, {by.role.value}"
        raise NotAllowedToAnswer(
            f"You may not answer this ({asked}): you are {who}. It still waits."
        )


def is_allowed_to_answer(tx: Tx, row: ApprovalRow, answer: Answer, person: Person) -> bool:
    """This person may give this answer now."""
    first, session = tx.get_turn_input(row.turn), tx.get_session(row.session)
    label, begun_by = session.label if session else Label.UNTRUSTED, first.sender if first else ""
    return may_answer_question(row, answer, person, begun_by=begun_by, session_label=label)


def name_question(row: ApprovalRow) -> str:
    """Enough to tell it from the same call asked anew, too little to press its button."""
    return row.token_hash[:16]


def code_of(row: ApprovalRow) -> str:
    """What names it in any chat of the owner's."""
    return make_short_code(row.token_hash)


def ref_of(row: ApprovalRow) -> ApprovalRef:
    """Identifies the question: the same call asked once more is another one."""
    return row.turn, f"{row.call_id}/{name_question(row)}"


def load_shown(tx: Tx, session: str, person: str) -> ShownApprovals:
    """What this person was shown in this conversation."""
    text = tx.get_shown_questions(session, person)
    return SHOWN.validate_json(text) if text else ShownApprovals()


def save_shown(
    tx: Tx, session: str, person: str, shown: ShownApprovals, waiting: Sequence[ApprovalRow]
) -> None:
    """Keep it; of questions that wait no longer nothing is kept but their place in the list."""
    shown = replace(shown, whole=shown.whole.intersection(map(ref_of, waiting)))
    tx.put_shown_questions(session, person, SHOWN.dump_json(shown).decode())


def needs_full_view(row: ApprovalRow) -> bool:
    """A list shows only its beginning, so a person has to see it whole before a yes; system
    questions are always whole. So has one that is asked again because what runs has changed.
    """
    if CHANGED_NOTE in row.preview:
        return True
    texts = (escape_invisible(row.arguments), _indent(row.preview))
    return is_call(row) and max(map(len, texts)) > MAX_CHARS


def render_list(rows: Sequence[ApprovalRow], session: str) -> str:
    """All that wait, numbered, and how to answer."""
    lines = [f"{number}. {render_approval(row, session)}" for number, row in enumerate(rows, 1)]
    head = "1 question waits:" if len(rows) == 1 else f"{len(rows)} questions wait:"
    return "\n".join((head, *lines, ANSWER_HINT))


def render_approval(row: ApprovalRow, session: str, *, whole: bool = False) -> str:
    """The tool, its effect, where the question comes from, exactly what would be done, and
    warnings.
    """
    terms = [row.effect.value, f"until {show_time(row.expires)}", f"code {code_of(row)}"]
    if row.session != session:
        terms.append(f"asked by {make_visible(row.session)}")
    most = 0 if whole else MAX_CHARS
    if not is_call(row) and (question := parse_system_question(row.tool, row.arguments)):
        arguments = make_lines_visible(question.whole, most)
    else:
        arguments = make_visible(row.arguments, most)
    does, preview = describe_effect(row.tool, row.effect.value, row.preview)
    parts = (
        f"{make_visible(row.tool)} ({', '.join(terms)})",
        f"It {does}:" if is_call(row) else "",
        arguments,
        make_lines_visible(preview, most),
        OUTSIDE_WARNING if row.label is Label.UNTRUSTED else "",
    )
    return "\n".join(filter(None, parts))


def make_visible(text: str, most: int = MAX_CHARS) -> str:
    """The text on one line with invisible characters spelled out; a long one is cut, and the cut
    is told. `most` 0: all.

    Warnings about what looks like something else stand below it; they are about the whole text,
    cut or not.
    """
    return _cut(escape_invisible(text).replace("\n", ""), text, most)


def make_lines_visible(text: str, most: int = MAX_CHARS) -> str:
    """The same for a text of several lines, such as a diff; each is indented."""
    return _cut(_indent(text), text, most)


def _indent(text: str) -> str:
    return "\n".join(f"    {escape_invisible(line)}" for line in text.split("\n")) if text else ""


def _cut(plain: str, text: str, most: int) -> str:
    missing = len(plain) - most
    head = f"{plain[:most]}… and {missing:,} more characters" if 0 < most < len(plain) else plain
    warnings = (f"! {warning}" for warning in find_suspicious(text))
    return "\n".join(filter(None, (head, *warnings)))


def _is_meant(tx: Tx, row: ApprovalRow, question: str, answer: Answer) -> bool:
    """The answer is to this question. Who names only the call has seen the first one about it, or
    says no to it.
    """
    if question or answer in (Answer.DENY, Answer.CHOICE):
        return question in ("", name_question(row))
    events = (one.event for one in tx.list_events(row.turn))
    asked = (one for one in events if isinstance(one, ApprovalAsked) and one.call_id == row.call_id)
    return all(one.token_hash == row.token_hash for one in asked)


def _check_bounds(row: ApprovalRow, answer: Answer, bounds: GrantBounds) -> None:
    if bounds == EXACT_CALL:
        return
    if answer not in LASTING_ANSWERS or not is_call(row):
        raise UsageError(
            "Bounds need a yes for the session or always, to a tool call. Nothing was answered."
        )
    if bounds.paths and (error := pattern_error(bounds.paths, row.paths)):
        raise UsageError(f"{error}. Nothing was answered.")


def _grant_scope(tx: Tx, session: str, answer: Answer) -> str:
    """For the session: the chat that a sub-agent works for, but never for one from outside. For
    good: the owner's chats, or conversations from outside; neither includes the other.
    """
    own = tx.get_session(session)
    trusted = own is not None and own.label is Label.TRUSTED
    if answer is Answer.SESSION:
        return own.root if own and trusted and own.root else session
    return "" if trusted else OUTSIDE_SCOPE
