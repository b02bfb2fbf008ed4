"""The rows beside the events: what the journal's tables hold, and who may answer a question."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.core.quoted import Spans
from daemon.core.reports import Criterion
from daemon.core.trust import (
    APPROVALS,
    ASK_TOOL,
    OWNER_NAME,
    SECRET_TOOL,
    Answer,
    Effect,
    Label,
    Person,
    Right,
    Role,
    Sources,
    Stop,
    has_right,
    may_answer,
)
from daemon.core.turn_spec import Limits

AnyPath = Annotated[str, "path"]  # the name of a file need not be text: stored as JSON

EVENT_CHANNEL, SCHEDULE_CHANNEL, GOAL_CHANNEL = "event", "schedule", "goal"
GOAL_PREFIX, GOAL_DONE = f"{GOAL_CHANNEL}_", "goal_done"
OF_GOAL = "the goal's"  # begins why a run ended that used up a goal's budget
HTTP_ROOT, NO_ROOT, REPORT_SUFFIX = "http", "nobody", ".report"
UNSENT_STATES = ("new", "sending", "uncertain")  # deliveries that are on their way still
OUTSIDE_SCOPE = "outside"  # of a lasting permission for a conversation from outside


@value
class Disclosure:
    """A fetch after private content was read, of an address that only a stranger named: what the
    choice may have told. Or a deed that was done at the owner's order, of no bits: `domain` has its
    keys. `call` is TURN/CALL; `turn` the one that set it to work; `day` counts days since 1970.
    """

    call: str
    session: str
    turn: str
    day: int
    domain: str
    bits: float


@value
class InboxRow:
    """One accepted message. `turn` is the turn it begins; `steers` the running turn it is meant to
    be folded into.

    state: new -> taken (its turn began) -> done, or steered:TURN, answered:TURN, quarantined; gone,
    where its sender is not let in any more; typed:TURN, an answer in own words, until it is folded
    into that turn (steered). Of a command: ordered -> command.

    `role`: what its sender may do (core/trust.py): only an owner's words are the owner's.
    `attachments`: the files that came with it, not fetched yet (channels/message.py); "" for none.
    `message_id`: the platform's own id of it, to answer to. `quoted`: what of the body are not its
    sender's own words (core/quoted.py). `private`, `composed`: see UserSaid.
    """

    id: str
    channel: str
    account: str
    external_id: str
    session: str
    sender: str
    body: str
    label: Label
    turn: str
    received_at: datetime
    steers: str = ""
    state: str = "new"
    role: str = "owner"
    attachments: str = ""
    message_id: str = ""
    quoted: Spans = ()
    private: Sources = ()
    composed: bool = False


@value
class SessionRow:
    """One conversation and what was set for it by commands. `cleared_at`: history before it is not
    shown to the model.

    `root` is the conversation that a sub-agent's, a loop's or an event's session works for: its
    people are asked and told, there; "" for a conversation of its own. HTTP and NOBODY are no
    conversations: of HTTP, questions wait at /v1/approvals for whoever has the owner's token, and
    nothing is delivered; of NOBODY, nothing is asked either.
    """

    id: str
    channel: str
    chat: str
    label: Label
    created_at: datetime
    agent: str = "default"
    model: str = ""
    effort: str = ""
    paused: bool = False
    cleared_at: datetime | None = None
    root: str = ""


@value
class TurnRow:
    """A turn at a glance, kept up by its events. state: running, suspended, ended, quarantined."""

    id: str
    session: str
    parent: str
    input_id: str
    state: str
    label: Label
    started_at: datetime
    ended_at: datetime | None = None
    stop_reason: Stop | None = None
    detail: str = ""
    reply: str = ""
    iterations: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = 0.0
    agent: str = "default"
    private: Sources = ()


@value
class ChildRow:
    """An agent that a turn set to work (A17). `turn` is the child's own turn; `done` once that has
    ended or was set aside.
    """

    turn: str
    parent: str
    key: str
    session: str
    parent_session: str
    agent: str
    task: str
    depth: int
    limits: Limits
    max_chars: int
    report: str
    done: bool = False


@value
class ApprovalRow:
    """A question: waiting (`told`: people know), pending, answered, consumed, expired or void."""

    turn: str
    call_id: str
    session: str
    tool: str
    arguments: str
    args_hash: str
    effect: Effect
    label: Label
    token_hash: str
    asked_at: datetime
    expires: datetime
    state: str = "pending"
    answer: Answer | None = None
    answered_by: str = ""
    reason: str = ""
    preview: str = ""
    paths: tuple[str, ...] = ()
    binds: str = ""
    told: bool = False
    owners: bool = False


@value
class GrantRow:
    """A standing permission: this tool with exactly these arguments, in one session or (session "")
    everywhere.

    It is bounded by a number of uses or by time: `uses_left` None is any number, `expires` None
    only with a number of uses. With `paths`, a pattern of places in the workspace, it is for every
    call of the tool there, whatever its other arguments. `uses`: how often it has been used.
    `binds`: the digests of the files that it was given for; changed ones need a new yes.
    """

    id: str
    session: str
    tool: str
    args_hash: str
    arguments: str
    granted_by: str
    created_at: datetime
    uses_left: int | None = None
    expires: datetime | None = None
    paths: str = ""
    uses: int = 0
    binds: str = ""


@value
class OutboxRow:
    """Something to deliver. state: new, sending, sent, uncertain, failed; held until `due` (of what
    goes to others than the owner), or withdrawn. kind: reply, approval, notice, file, mail.

    `platform_message_id`: what the platform calls it, several with spaces between. `error`: why it
    was not sent the last time. `buttons`: a question that stands in a chat with buttons.
    """

    turn: str
    part: int
    session: str
    channel: str
    chat: str
    kind: str
    body: str
    created_at: datetime
    state: str = "new"
    platform_message_id: str = ""
    attempts: int = 0
    error: str = ""
    buttons: bool = False
    due: datetime | None = None


@value
class PersonRow:
    """Somebody who was let in by a code. `name` is channel/account/sender, each quoted."""

    name: str
    role: str
    since: datetime


@value
class PairingCode:
    """A code that waits to be used; whoever reads the journal has only its digest."""

    digest: str
    role: str
    channel: str
    expires: datetime


@value
class OwnerChat:
    """The private chat of a channel in which an owner was met last."""

    channel: str
    session: str
    person: str
    at: datetime


class LabelScope(StrEnum):
    """What a label is about: a file and its name, a name alone, or a folder with its content."""

    FILE = "file"
    NAME = "name"
    TREE = "tree"


@value
class FileLabel:
    """The label of a place in the workspace, and the turn that gave it. Where there is a `digest`,
    a good label is for this content alone, or for this repository. `holds`: private sources that
    were read, unordered, before it was written. `maker`: what left a bad one: a command's hash, or
    a word.
    """

    path: AnyPath
    label: Label
    turn: str
    scope: LabelScope = LabelScope.FILE
    digest: str = ""
    holds: tuple[str, ...] = ()
    maker: str = ""


@value
class FileVersion:
    """One change of one file. `old` and `new` are hashes of what it held; `label`, `mode` and
    `size` are the old content's.

    `undoes` is the turn that this change took back; `undone`: this change has been taken back;
    `lines`: how many more lines the new content has. A `path` that ends with "/" is of very many
    files that one command changed: see bulk.py.
    """

    name: str
    session: str
    turn: str
    call_id: str
    path: AnyPath
    at: datetime
    old: str
    new: str
    mode: int
    size: int
    label: Label
    undoes: str = ""
    undone: bool = False
    lines: int = 0


@value
class RuleRow:
    """A pinned rule: the sentence, and what it was read as, in JSON."""

    n: int
    said: str
    matcher: str
    session: str
    sender: str
    confirmed: bool


@value
class UsageRow:
    """What was used, summed: by model over a span of time. usd is None when any price in it is
    unknown.
    """

    provider: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    usd: float | None


LOOP_CHANNEL = "loop"
REVIEW_QUESTION = "review"


class LoopStage(StrEnum):
    """Where a loop stands. REVIEWING: a person has been asked whether the attempt will do."""

    RUNNING = "running"
    PAUSED = "paused"
    REVIEWING = "reviewing"
    COMPLETED = "completed"
    FAILED = "failed"


@value
class LoopRow:
    """One loop. `root` is the conversation that started it, `attempt` the one it is at, `learned` a
    line for each before.

    `label` is the lowest of all that its attempts have read, `private` all that is the owner's of
    it: what one has learned, the next is told. `role`: the role of whoever began it; only an
    owner's task is the owner's words. `live`: a live page started it (C10).
    """

    id: str
    agent: str
    root: str
    sender: str
    label: Label
    message: str
    criterion: Criterion
    value: str
    max_iterations: int
    started_at: datetime
    stage: LoopStage = LoopStage.RUNNING
    attempt: int = 1
    learned: tuple[str, ...] = ()
    final_output: str = ""
    error: str = ""
    ended_at: datetime | None = None
    role: str = OWNER_NAME
    private: Sources = ()
    live: bool = False

    @property
    def session(self) -> str:
        """The session that its attempts are turns of."""
        return f"{LOOP_CHANNEL}:{self.id}"

    @property
    def is_over(self) -> bool:
        """It has ended, one way or the other."""
        return self.stage in (LoopStage.COMPLETED, LoopStage.FAILED)

    def turn_id(self, attempt: int) -> str:
        """The turn that this attempt is: a name that follows from the loop, so that no attempt is
        ever begun twice.
        """
        return f"{self.id}-{attempt}"


MAX_GRANT_TERM = timedelta(days=90)
MAX_GRANT_USES = 1000
LASTING_ANSWERS = (Answer.SESSION, Answer.ALWAYS)


class NotAllowedToAnswer(AidaemonError):
    """This question is somebody else's to answer. It still waits."""


@value
class GrantBounds:
    """How far a yes for longer goes, in a person's words: so many more times, for so long, in these
    places. 90 days at most.
    """

    uses: int | None = None
    duration: timedelta | None = None
    paths: str = ""


EXACT_CALL = GrantBounds()


def is_system_question(asked: ApprovalRow) -> bool:
    """The daemon itself asks: such a question is named, a call is numbered."""
    return not asked.call_id[:1].isdigit()


def is_call(asked: ApprovalRow) -> bool:
    """A yes makes a call run: neither the daemon asks, nor the model for a word or a secret."""
    return not (is_system_question(asked) or asked.tool in (ASK_TOOL, SECRET_TOOL))


def may_answer_question(
    asked: ApprovalRow, answer: Answer, person: Person, *, begun_by: str, session_label: Label
) -> bool:
    """Whether this person, as they stand now, may give this answer (the table is core/trust.py).

    `begun_by` is who sent the message that began the turn. The people of a session from outside are
    strangers, whatever names they give: nothing there is anybody's own, and a yes is the owner's
    alone.
    """
    outside = session_label is Label.UNTRUSTED
    own = person.name == begun_by and not outside
    if is_system_question(asked) and asked.effect is Effect.READ and not outside:
        return answer is not Answer.EXPIRED and has_right(person.role, Right.WORK)
    if asked.tool in (ASK_TOOL, SECRET_TOOL):
        wanted = (Answer.CHOICE,) if asked.tool == ASK_TOOL else APPROVALS
        is_theirs = person.role is Role.OWNER or (own and asked.tool == ASK_TOOL)
        return answer in (*wanted, Answer.DENY) and is_theirs
    label = Label.UNTRUSTED if outside or asked.owners else asked.label
    return may_answer(person.role, asked.effect, label, answer, own=own)


def grant_from_answer(
    asked: ApprovalRow,
    answer: Answer,
    bounds: GrantBounds,
    *,
    name: str,
    where: str,
    by: str,
    now: datetime,
) -> GrantRow | None:
    """The standing permission that goes with an answer: exact and bounded, or none. `where` is the
    session; "" for everywhere.

    The daemon's own questions are asked anew each time.
    """
    if answer not in LASTING_ANSWERS or not is_call(asked):
        return None
    ends = now + min(bounds.duration or MAX_GRANT_TERM, MAX_GRANT_TERM)
    exact = ("", "") if bounds.paths else (asked.args_hash, asked.arguments)
    return GrantRow(
        name,
        where,
        asked.tool,
        *exact,
        by,
        now,
        uses_left=bounds.uses,
        expires=ends,
        paths=bounds.paths,
        binds=asked.binds,
    )
