"""The rows that stand beside the events: what the journal's tables hold, as values."""

from dataclasses import dataclass
from datetime import datetime

from daemon.core.label import Effect, Label
from daemon.core.outcomes import Answer, Stop
from daemon.core.terms import Limits

EVENT = "event"
HTTP, NOBODY = "http", "nobody"
UNSENT = ("new", "sending", "uncertain")  # deliveries that are on their way still
OUTSIDE = "outside"  # the scope of a permission that was given for good to a conversation that came from outside


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One accepted message. `turn` is the turn it begins; `steers` the running turn it is meant to be folded into.

    state: new -> taken (its turn began) -> done, or steered:TURN, answered:TURN, quarantined; gone, where its sender was not
    let in any more when the daemon started. Of a command: ordered -> command.

    `role`: what its sender may do (core/roles.py): only an owner's words are the owner's. `attachments`: the files that came
    with it, not fetched yet (core/files.py); "" for none. `message_id`: the platform's own id of it, to answer to.
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


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One conversation and what was set for it by commands. `cleared_at`: history before it is not shown to the model.

    `root` is the conversation that a sub-agent's, a loop's or an event's session works for: its people are asked and told,
    there; "" for a conversation of its own. HTTP and NOBODY are no conversations: of HTTP, questions wait at /v1/approvals for
    whoever has the owner's token, and nothing is delivered; of NOBODY, nothing is asked either.
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

    @property
    def unheard(self) -> bool:
        """No person whom the house trusts stands behind it: what would have to be asked is refused (DESIGN 6)."""
        return self.label is Label.UNTRUSTED and self.root in ("", NOBODY)


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class ChildRow:
    """An agent that a turn set to work (A17). `turn` is the child's own turn; `done` once that has ended or was set aside."""

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


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """A question to a person about one call. state: pending, answered, consumed, expired, void (its turn ended)."""

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


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A standing permission: this tool with exactly these arguments, in one session or (session "") everywhere.

    It is bounded by a number of uses or by time: `uses_left` None is any number, `expires` None only with a number of uses.
    With `paths`, a pattern of places in the workspace, it is for every call of the tool there, whatever its other arguments.
    `uses`: how often it has been used.
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


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """Something to deliver. state: new, sending, sent, uncertain, failed. kind: reply, approval, notice, file.

    `platform_message_id`: what the platform calls it; several, with spaces between, where it took several messages.
    `error`: why it failed, or could not be sent the last time.
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


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What was used, summed: by model over a span of time. usd is None when any price in it is unknown."""

    provider: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    usd: float | None
