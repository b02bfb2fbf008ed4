"""Who may do what (DESIGN 6 Roles, C9): five roles, one table, and nothing that is not in it."""

from dataclasses import dataclass
from enum import StrEnum

from daemon.core.label import Effect, Label
from daemon.core.outcomes import Answer

OWNER_NAME = "owner"


class Role(StrEnum):
    """What a person is to the house."""

    OWNER = "owner"
    ADMIN = "admin"
    EDITOR = "editor"
    VIEWER = "viewer"
    GUEST = "guest"


class Right(StrEnum):
    """One thing that a person may be allowed.

    KNOCK: be known, and ask whether the daemon is well. LOOK: read runs, conversations, questions and loops, those of others
    too. TALK: say something in a conversation of their own. WORK: start, stop and approve loops, stop runs. ANSWER: say yes to
    a call that can be undone. DANGER: say yes to any call, and for good. MANAGE: people, rules, grants, the config.
    """

    KNOCK = "knock"
    LOOK = "look"
    TALK = "talk"
    WORK = "work"
    ANSWER = "answer"
    DANGER = "danger"
    MANAGE = "manage"


GUESTS = frozenset({Right.KNOCK})
VIEWERS = GUESTS | {Right.LOOK}
EDITORS = VIEWERS | {Right.TALK, Right.WORK}
ADMINS = EDITORS | {Right.ANSWER}
OWNERS = frozenset(Right)
RIGHTS = {Role.GUEST: GUESTS, Role.VIEWER: VIEWERS, Role.EDITOR: EDITORS, Role.ADMIN: ADMINS, Role.OWNER: OWNERS}
UNDONE_EASILY = (Effect.READ, Effect.FETCH, Effect.WRITE)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whom a door has recognised. `name` is how they stand in the journal, as sender or as who answered."""

    name: str
    role: Role


OWNER = Person(OWNER_NAME, Role.OWNER)


def may(role: Role, right: Right) -> bool:
    """The table."""
    return right in RIGHTS[role]


def is_dangerous(effect: Effect, label: Label) -> bool:
    """Only an owner says yes to it: it cannot be undone, or somebody outside may have thought of it."""
    return effect not in UNDONE_EASILY or label is Label.UNTRUSTED


def may_answer(role: Role, effect: Effect, label: Label, answer: Answer, *, own: bool = False) -> bool:
    """Whether this person may give this answer to a question about a call of such an effect, in a turn of such a label.

    `own` says that the turn is theirs: everyone who may talk may take back what they asked for themselves. A yes for good
    ("always") is a rule of the house, and rules are the owner's.
    """
    if answer is Answer.EXPIRED:
        return False  # nobody says that: it is what becomes of a question
    if answer is Answer.DENY:
        return may(role, Right.ANSWER) or (own and may(role, Right.TALK))
    grave = answer is Answer.ALWAYS or is_dangerous(effect, label)
    return may(role, Right.DANGER if grave else Right.ANSWER)


def label_of(role: Role) -> Label:
    """What the words of such a person are trusted for: those who may not talk are only ever read, never obeyed."""
    return Label.TRUSTED if may(role, Right.TALK) else Label.UNTRUSTED
