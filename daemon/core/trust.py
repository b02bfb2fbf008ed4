"""What a text may be trusted for, and what a tool does to the world (glossary.md, trust.md).

How things end: a turn, a call, a question to a person. Which tools are asked about (B8).

Who may do what (trust.md, C9): five roles, one table, and nothing that is not in it.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Literal

from daemon.core import value


class Label(StrEnum):
    """Integrity of what a turn has seen. Joins go downwards only."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"

    def join_with(self, other: "Label") -> "Label":
        """The lower of the two."""
        return self if self is Label.UNTRUSTED else other


def join_all(labels: Iterable[Label]) -> Label:
    """The lowest of them; trusted when there are none."""
    return Label.UNTRUSTED if Label.UNTRUSTED in labels else Label.TRUSTED


Sources = tuple[str, ...]
"""What of the owner's own a text may tell: names of tools and files, sorted. It only grows."""
MAX_SOURCES, MUCH, ANOTHER_AGENT = 20, "more", "another agent"


def join_sources(parts: Iterable[Iterable[str]]) -> Sources:
    """What texts may tell together; of many, not all are named."""
    named = {one for part in parts for one in part}
    found = sorted(named - {MUCH})
    is_much = MUCH in named or len(found) > MAX_SOURCES
    return (*found[:MAX_SOURCES], MUCH) if is_much else tuple(found)


@value
class TextLabel:
    """Of a text that is kept: what of the owner's own it may tell; `composed`: its words are no
    person's.
    """

    integrity: Label = Label.TRUSTED
    private: Sources = ()
    composed: bool = False


OWNER_SAID = TextLabel()


class Effect(StrEnum):
    """What a tool does to the world; what is unknown counts as DESTRUCTIVE."""

    READ = "read"
    FETCH = "fetch"
    WRITE = "write"
    EGRESS = "egress"
    DESTRUCTIVE = "destructive"


class Decision(StrEnum):
    """What the gate says to one call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Stop(StrEnum):
    """Why a turn ended (glossary.md)."""

    DONE = "done"
    MAX_ITERATIONS = "max_iterations"
    OVER_BUDGET = "over_budget"
    DEADLINE = "deadline"
    STALLED = "stalled"
    REPEATING = "repeating"
    LOW_CONFIDENCE = "low_confidence"
    CANCELLED = "cancelled"
    CONDITION = "condition"
    FAILED = "failed"
    REJECTED = "rejected"


class Outcome(StrEnum):
    """How one tool call ended; every call ends in exactly one of these."""

    OK = "ok"
    ERROR = "error"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    NOT_RUN = "not_run"


class Answer(StrEnum):
    """What a person said to an approval; EXPIRED when nobody said anything in time. TEXT is their
    own words: an answer to `ask_user`, and no yes to any other call. CHOICE is an option of
    `ask_user`.
    """

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    DENY = "deny"
    EXPIRED = "expired"
    CHOICE = "choice"
    TEXT = "text"


APPROVALS = (Answer.ONCE, Answer.SESSION, Answer.ALWAYS)
ASK_TOOL, SECRET_TOOL = "ask_user", "ask_secret"
ANSWER_CHARS = 200
"""So much of an answer in own words goes with the question; its message is whole."""


OWNER_NAME = "owner"


class Role(StrEnum):
    """What a person is to the daemon."""

    OWNER = "owner"
    ADMIN = "admin"
    EDITOR = "editor"
    VIEWER = "viewer"
    GUEST = "guest"


class Right(StrEnum):
    """One thing that a person may be allowed.

    CONTACT: be known, and ask whether the daemon is well. READ: read runs, conversations, questions
    and loops, those of others too. TALK: say something in a conversation of their own. WORK: start,
    stop and approve loops, stop runs. ANSWER: say yes to a call that can be undone. DANGER: say yes
    to any call, and for good. MANAGE: people, rules, grants, the config.
    """

    CONTACT = "knock"
    READ = "look"
    TALK = "talk"
    WORK = "work"
    ANSWER = "answer"
    DANGER = "danger"
    MANAGE = "manage"


GUEST_RIGHTS = frozenset({Right.CONTACT})
VIEWER_RIGHTS = GUEST_RIGHTS | {Right.READ}
EDITOR_RIGHTS = VIEWER_RIGHTS | {Right.TALK, Right.WORK}
ADMIN_RIGHTS = EDITOR_RIGHTS | {Right.ANSWER}
OWNER_RIGHTS = frozenset(Right)
RIGHTS = {
    Role.GUEST: GUEST_RIGHTS,
    Role.VIEWER: VIEWER_RIGHTS,
    Role.EDITOR: EDITOR_RIGHTS,
    Role.ADMIN: ADMIN_RIGHTS,
    Role.OWNER: OWNER_RIGHTS,
}


class Resource(StrEnum):
    """What can be read of the daemon; SEES says by whom. RUNS are conversations with their events,
    loops and texts that wait; EXPORTS backups and exported memories.
    """

    MEMORIES = "memories"
    GOALS = "goals"
    SCHEDULES = "schedules"
    RUNS = "runs and their events"
    APPROVALS = "approvals"
    COST = "cost"
    FILES = "workspace files, by tools"
    MAIL = "mail, MCP servers"
    PEOPLE = "people, the config"
    GRANTS = "grants"
    EXPORTS = "exports"


class Access(StrEnum):
    """How much of a resource somebody sees. OTHERS: all but what is in conversations of the owner's
    own (access/owner_sessions.py).
    """

    NONE = "-"
    OTHERS = "all but the owner's"
    ALL = "all"


SEES: dict[Resource, dict[Role, Access]] = {
    Resource.RUNS: dict.fromkeys((Role.VIEWER, Role.EDITOR, Role.ADMIN), Access.OTHERS),
    Resource.APPROVALS: {
        Role.VIEWER: Access.OTHERS,
        Role.EDITOR: Access.OTHERS,
        Role.ADMIN: Access.ALL,
    },
    Resource.COST: dict.fromkeys((Role.VIEWER, Role.EDITOR, Role.ADMIN), Access.ALL),
    Resource.FILES: dict.fromkeys((Role.EDITOR, Role.ADMIN), Access.ALL),
    Resource.GRANTS: {Role.ADMIN: Access.ALL},
}
"""For all but the owner, who sees everything; what is not listed nobody else sees."""


@value
class Person:
    """Somebody who has been recognised. `name` is how they stand in the journal, as sender or as
    who answered.
    """

    name: str
    role: Role


@value
class PairedPerson:
    """Somebody who had a code. `name` is channel/account/sender."""

    name: str
    role: str
    since: str


@value
class NewCode:
    """A code, shown once; the journal has only its digest."""

    code: str
    role: str
    channel: str
    expires: str


ToolApproval = Literal["always", "protected_paths", "never"]
Approval = Literal["", "risk", "always", "each", "never"]
"""`always`: before every effect; `each`: before every call, reading too; "" says nothing."""
LINES: dict[ToolApproval, Approval] = {
    "always": "each",
    "protected_paths": "risk",
    "never": "never",
}


@value
class ToolApprovals:
    """`lines`: (name or pattern of a tool, when it is asked about); of several that fit, the
    strictest counts.
    """

    default: Literal["", "risk", "always"] = "risk"
    lines: tuple[tuple[str, ToolApproval], ...] = ()

    def find(self, tool: str, *closer: "ToolApprovals") -> Approval:
        """For calls of this tool. `closer`: what an agent's file says; it relaxes no "always"."""
        found: list[Approval] = []
        for one in (*closer, self):
            if not one.lines:
                found.append(one.default)
                continue
            said = {how for name, how in one.lines if name == tool or fnmatchcase(tool, name)}
            found.append(next((does for how, does in LINES.items() if how in said), one.default))
        for strict in ("each", "always"):
            if strict in found:
                return strict
        return found[0] or found[-1]


@value
class AnswerTimes:
    """How long people have to answer a question: `minutes`, but a day where it comes from outside
    or from what begins by itself; that is asked at the end of quiet hours (`find_quiet_end`; None
    for now).
    """

    minutes: float = 5.0
    find_quiet_end: Callable[[datetime], datetime | None] = lambda now: None

    def find_expiry(self, now: datetime, label: Label, *, by_itself: bool) -> datetime:
        """When the question lapses that is asked now."""
        if by_itself:
            return (self.find_quiet_end(now) or now) + LONG_WAIT
        return now + (timedelta(minutes=self.minutes) if label is Label.TRUSTED else LONG_WAIT)


LONG_WAIT = timedelta(days=1)
OWNER = Person(OWNER_NAME, Role.OWNER)


def find_access(role: Role, resource: Resource) -> Access:
    """The table of what is seen."""
    return Access.ALL if role is Role.OWNER else SEES.get(resource, {}).get(role, Access.NONE)


def has_right(role: Role, right: Right | Resource) -> bool:
    """The tables: whether the role may do this, or sees anything of the resource."""
    if isinstance(right, Resource):
        return find_access(role, right) is not Access.NONE
    return right in RIGHTS[role]


def may_answer(
    role: Role, effect: Effect, label: Label, answer: Answer, *, own: bool = False
) -> bool:
    """Whether this person may give this answer to a question about a call of such an effect, in a
    turn of such a label.

    `own` says that the turn is theirs: everyone who may talk may take back what they asked for
    themselves. A yes for good ("always") is a rule, and rules are the owner's; what is shown or
    told is never taken back.
    """
    if answer is Answer.EXPIRED:
        return False  # nobody says that: it is what becomes of a question
    if answer is Answer.DENY:
        return has_right(role, Right.ANSWER) or (own and has_right(role, Right.TALK))
    safe = effect is Effect.WRITE and label is Label.TRUSTED  # nobody outside thought of it
    return has_right(role, Right.ANSWER if safe and answer is not Answer.ALWAYS else Right.DANGER)


def label_for_role(role: Role) -> Label:
    """What the words of such a person are trusted for: those who may not talk are only ever read,
    never obeyed.
    """
    return Label.TRUSTED if has_right(role, Right.TALK) else Label.UNTRUSTED
