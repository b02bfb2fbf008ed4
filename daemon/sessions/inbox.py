"""The way in: a message becomes a row on disk, once; only then is it acknowledged and worked on
(K1, K2).
"""

import re
from contextlib import nullcontext
from dataclasses import field, replace

from daemon.agent.system_questions import parse_system_question
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.events import Answer, ModelReplied
from daemon.core.ids import CODE, NewId
from daemon.core.messages import drop_lone_surrogates
from daemon.core.quoted import find_quoted
from daemon.core.rows import ApprovalRow, InboxRow, SessionRow
from daemon.core.trust import ANSWER_CHARS, ASK_TOOL, SECRET_TOOL, Label
from daemon.core.turn_spec import PLAN_WORD
from daemon.sessions.brakes import Intake, TooMany
from daemon.sessions.manager import SessionManager
from daemon.settings.redaction import Redactor
from daemon.store.journal import Store, Tx
from daemon.store.tables.people import IntakeRow

OWNER = "owner"
COMMAND_STATE = "ordered"
SHORT_ARGUMENT = re.compile(rf"\d{{1,2}}|all|{CODE.pattern}")  # which question is meant
NOT_KEPT = "[not kept: a secret was asked for]"
NOT_READ = (
    "I did not read or keep what you wrote: while I ask for a secret, it might be that. If it was,"
    " delete it here. /deny goes on without the secret."
)


@value
class InboxMessage:
    """A message as a channel or HTTP hands it over. `external_id` is the sender's own:
    the same one twice is dropped.

    `label` is that of the words; the conversation is trusted by how it is reached (`reached`),
    whatever is said in it first. `attachments` are written as message.py says; `message_id`
    is what a reply is to answer to, "" for nothing. `data`: parts of the text that are known to be
    somebody else's, word for word; what else looks like that counts so, too (core/quoted.py).
    `own`: the end of the text, an earlier message of the sender's that they answer.
    """

    channel: str
    chat: str
    session: str
    sender: str
    external_id: str
    text: str
    label: Label = Label.TRUSTED
    account: str = ""
    stream: bool = True
    role: str = OWNER
    attachments: str = ""
    message_id: str = ""
    session_label: Label | None = None
    data: tuple[str, ...] = ()
    own: str = ""


@value
class InboxReceipt:
    """What became of it. `duplicate`: its id had come before; `is_other`: with another text."""

    row: InboxRow
    duplicate: bool = False
    is_other: bool = False

    @property
    def joined_turn(self) -> str:
        """The turn that this message went into, when it did not begin one."""
        kind, _, turn = self.row.state.partition(":")
        return turn if kind in ("steered", "answered", "typed") else self.row.steers


@value
class _Written:
    """A message in the journal. `asked`: the session of the question that it answers, of a sub-
    agent perhaps; `is_new`: it began its session; `is_told`: a turn that begins with it now has
    nothing to look for.
    """

    session: SessionRow
    row: InboxRow
    asked: SessionRow | None = None
    is_new: bool = False
    is_told: bool = False


@value
class Inbox:
    """One for all channels. Secrets are redacted before anything is written."""

    store: Store
    sessions: SessionManager
    clock: Clock
    new_id: NewId
    redactor: Redactor = field(default_factory=Redactor)
    intake: Intake | None = None

    async def accept(self, inbound: InboxMessage, *, command: bool = False) -> InboxReceipt:
        """Durable when it returns. Raises StoreUnavailable: nothing was accepted, send it again;
        TooMany: nothing was accepted, send it later. Commands are always taken.
        """
        intake = None if command else self.intake
        size = len(inbound.text) + sum(map(len, inbound.data))
        weight = inbound.sender, size, inbound.role == OWNER
        try:
            counted = intake.take(*weight) if intake else None
        except TooMany:
            key = inbound.channel, inbound.account, inbound.external_id
            if known := await self.store.read(lambda tx: tx.find_input(*key)):
                return self._receive_again(inbound, known)
            raise
        begins = command or inbound.text.startswith(PLAN_WORD) or inbound.attachments
        control, steers = None, ""
        if not begins:  # files are fetched when a turn begins
            control, steers = self.sessions.find_steerable(inbound.session, inbound.sender)
        needles = self.redactor.look(anew=True)
        body, own, *data = (
            self.redactor.redact_text(drop_lone_surrogates(text), needles)
            for text in (inbound.text, inbound.own, *inbound.data)
        )
        row = InboxRow(
            id=self.new_id(),
            channel=inbound.channel,
            account=inbound.account,
            external_id=inbound.external_id,
            session=inbound.session,
            sender=inbound.sender,
            body=body,
            label=inbound.label,
            turn=self.new_id(),
            received_at=self.clock.now(),
            state=COMMAND_STATE if command else "new",
            steers=steers,
            role=inbound.role,
            attachments=inbound.attachments,
            message_id=inbound.message_id,
            quoted=() if command else find_quoted(body, data, own),
        )
        with control.reserve_steer() if control else nullcontext():
            written = await self.store.write(lambda tx: _write(tx, inbound, row, counted))
            kept = written.row
            if kept.id != row.id:
                if intake:
                    intake.give_back(*weight)
                return self._receive_again(inbound, kept)
            if written.asked:
                self.sessions.wake_turn(written.asked, kept.state.partition(":")[2])
            elif control and kept.steers and control.accepts_steers:
                control.steers.append(kept)
            elif kept.state == "new":
                if kept.steers:  # the turn that it was meant for ended meanwhile
                    kept = replace(kept, steers="")
                how = {"is_new": written.is_new, "is_told": written.is_told}
                self.sessions.deliver(written.session, kept, stream=inbound.stream, **how)
            return InboxReceipt(kept)

    def _receive_again(self, inbound: InboxMessage, kept: InboxRow) -> InboxReceipt:
        """Both texts are compared without the secrets of now. What was not kept may be the same."""
        needles = self.redactor.look(anew=True)
        texts = (drop_lone_surrogates(inbound.text), kept.body)
        given, known = (self.redactor.redact_text(text, needles) for text in texts)
        is_other = given != known and not kept.body.endswith(NOT_KEPT)
        return InboxReceipt(kept, duplicate=True, is_other=is_other)


def _write(tx: Tx, inbound: InboxMessage, row: InboxRow, counted: IntakeRow | None) -> _Written:
    if counted and not tx.find_input(row.channel, row.account, row.external_id):
        tx.put_intake(counted)
    session = tx.get_session(inbound.session)
    is_new = session is None
    if session is None:
        reached = inbound.session_label or inbound.label
        session = SessionRow(
            inbound.session, inbound.channel, inbound.chat, reached, row.received_at
        )
        tx.put_session(session)
    question = None if session.label is Label.UNTRUSTED else _find_open_question(tx, row)
    if question and question.tool == SECRET_TOOL:
        return _Written(session, _accept_unread(tx, row, question))
    answer, said = (Answer.DENY, row.body) if question is None else _read_answer(question, row.body)
    if question:
        is_answer = question.tool == ASK_TOOL and answer is Answer.TEXT
        is_word = is_answer and not _is_asked_back(tx, question)
        how = "typed" if is_word else "answered"  # a server's form is told to nobody else
        row = replace(row, steers="", state=f"{how}:{question.turn}")
    elif row.steers and (meant := tx.get_turn(row.steers)) and meant.ended_at:
        row = replace(row, steers="")
    kept = tx.accept_input(row)
    if question and kept.id == row.id and kept.state == row.state:
        tx.answer_approval(
            question.turn, question.call_id, answer, row.sender, said, row.received_at
        )
        return _Written(session, kept, tx.get_session(question.session))
    is_plain = (kept.state, row.role, row.attachments) == ("new", OWNER, "")
    return _Written(session, kept, None, is_new, is_plain and not tx.has_outcomes(session.id))


def _accept_unread(tx: Tx, row: InboxRow, secret: ApprovalRow) -> InboxRow:
    """Nothing of it is kept but the word of a command, and no file is fetched."""
    if row.state == COMMAND_STATE:
        word, _, argument = row.body.partition(" ")
        is_known = not argument or SHORT_ARGUMENT.fullmatch(argument.strip())
        return tx.accept_input(row if is_known else replace(row, body=f"{word} {NOT_KEPT}"))
    state = f"answered:{secret.turn}"
    unread = replace(row, body=NOT_KEPT, quoted=(), attachments="", steers="", state=state)
    kept = tx.accept_input(unread)
    if kept.id == row.id:
        tx.post_to_session(row.session, secret.turn, "notice", NOT_READ, row.received_at)
    return kept


def _is_asked_back(tx: Tx, asked: ApprovalRow) -> bool:
    """A call that runs needs the answer, not the model."""
    seq, _, index = asked.call_id.partition(".")
    if asked.tool != ASK_TOOL or not index:
        return False
    reply = next((one.event for one in tx.list_events(asked.turn) if one.seq == int(seq)), None)
    return isinstance(reply, ModelReplied) and reply.calls[int(index)].name != ASK_TOOL


def _read_answer(question: ApprovalRow, said: str) -> tuple[Answer, str]:
    """What a text says to a question: to that of a call words instead of a yes, to the daemon's own
    a no with this reason; to `ask_user` an option, or an answer that goes to the turn as a message.
    """
    if question.tool != ASK_TOOL:
        return Answer.TEXT if question.call_id[0].isdigit() else Answer.DENY, said
    asked = parse_system_question(question.tool, question.arguments)
    option = asked.find_option(said) if asked else ""
    if option:
        return Answer.CHOICE, option
    return Answer.TEXT, said if len(said) <= ANSWER_CHARS else f"{said[:ANSWER_CHARS]}…"


def _find_open_question(tx: Tx, row: InboxRow) -> ApprovalRow | None:
    """The latest question that is open here and that this sender may answer: of their own turn;
    the owner's of any.

    What is asked here because of something from outside is no part of the conversation: it waits
    for a yes or no that is meant for it, and the owner goes on talking meanwhile. Nor do those
    who may not give orders answer anything, nor does text that was pasted, but to `ask_user`. While
    a secret is asked for in this chat, whatever its owner sends may be that (H2). Where several are
    open and one of them would tell a server, only the words of an option show which is meant.
    """
    standing = tx.list_asked_in(row.session, row.received_at)
    for asked in standing:
        begun = tx.get_turn_input(asked.turn) if asked.tool == SECRET_TOOL else None
        if begun and (row.role == OWNER or row.sender == begun.sender):
            return asked
    is_answer = row.state != COMMAND_STATE and not row.body.startswith(PLAN_WORD)
    if not is_answer or row.label is Label.UNTRUSTED or row.attachments:
        return None
    found: list[ApprovalRow] = []
    for asked in reversed(standing):
        begun, own = tx.get_turn_input(asked.turn), tx.get_session(asked.session)
        is_here = own is not None and row.session in (own.id, own.root)
        from_outside = own is None or own.label is Label.UNTRUSTED
        # an owner has a name in each channel, and what they set up for later asks in one of them
        owners = asked.tool == ASK_TOOL and begun and begun.role == row.role == OWNER
        if (
            begun
            and is_here
            and not from_outside
            and (row.sender in (begun.sender, OWNER) or owners)
            and (asked.tool == ASK_TOOL or not row.quoted)
        ):
            found.append(asked)
    if len(found) > 1 and any(_is_asked_back(tx, asked) for asked in found):
        found = [asked for asked in found if _is_option(asked, row.body)]
        return found[0] if len(found) == 1 else None
    return next(iter(found), None)


def _is_option(question: ApprovalRow, said: str) -> bool:
    """These are the words of one of its options, not the number."""
    asked = parse_system_question(question.tool, question.arguments)
    option = asked.find_option(said) if asked else ""
    return bool(option) and option.casefold() == said.strip().casefold()
