"""Who may answer a question, and for how long a yes is to hold (DESIGN 6 Approvals). Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from daemon.core.errors import AidaemonError
from daemon.core.label import Effect, Label
from daemon.core.outcomes import Answer
from daemon.core.roles import Person, Right, may, may_answer
from daemon.core.rows import ApprovalRow, GrantRow

LONGEST = timedelta(days=90)
MOST_USES = 1000
STANDING = (Answer.SESSION, Answer.ALWAYS)


class MayNotAnswer(AidaemonError):
    """This question is somebody else's to answer. It still waits."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a yes for longer goes, in a person's words: so many more times, for so long, in these places. 90 days at most."""

    uses: int | None = None
    lasts: timedelta | None = None
    paths: str = ""


EXACT = Bounds()


def is_of_the_house(asked: ApprovalRow) -> bool:
    """The house itself asks, for more budget or for a look at an answer: such a question is named, a call is numbered."""
    return not asked.call_id[:1].isdigit()


def may_say(asked: ApprovalRow, answer: Answer, person: Person, *, begun_by: str, session_label: Label) -> bool:
    """Whether this person, as they stand now, may give this answer (the table is core/roles.py).

    `begun_by` is who sent the message that began the turn. The people of a session from outside are strangers, whatever names
    they give: nothing there is anybody's own, and a yes is the owner's alone.
    """
    outside = session_label is Label.UNTRUSTED
    own = person.name == begun_by and not outside
    if is_of_the_house(asked) and asked.effect is Effect.READ and not outside:
        return answer is not Answer.EXPIRED and may(person.role, Right.WORK)
    label = Label.UNTRUSTED if outside else asked.label
    return may_answer(person.role, asked.effect, label, answer, own=own)


def permission(
    asked: ApprovalRow, answer: Answer, bounds: Bounds, *, name: str, where: str, by: str, now: datetime
) -> GrantRow | None:
    """The standing permission that goes with an answer: exact and bounded, or none. `where` is the session; "" for everywhere.

    The house's own questions are asked anew each time.
    """
    if answer not in STANDING or is_of_the_house(asked):
        return None
    ends = now + min(bounds.lasts or LONGEST, LONGEST)
    exact = ("", "") if bounds.paths else (asked.args_hash, asked.arguments)
    return GrantRow(name, where, asked.tool, *exact, by, now, uses_left=bounds.uses, expires=ends, paths=bounds.paths)
