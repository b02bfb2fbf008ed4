"""The facts of one call that the gate judges by."""

from enum import StrEnum
from typing import Literal

from daemon.core import value
from daemon.core.trust import Approval, Effect
from daemon.tools.policy.rules import Verdict

OTHERS_READ = "others in this chat would read the answer"


class Taint(StrEnum):
    """How far a request is from trusted, as the reason of a question says it."""

    NONE = ""
    READ_OWN = " after this conversation has read what is yours"
    READ_OUTSIDE_TEXT = " after this conversation has read text from outside"
    FROM_OUTSIDE = " for a conversation that came from outside"


@value
class Provenance:
    """The first argument value that is not the owner's, and the first that was not read before; ""
    for none.
    """

    not_owned: str = ""
    not_read: str = ""


@value(kw_only=True)
class PolicyInput:
    """One call as the gate sees it. `safe` is a command of the safe grammar; `ruling` is the
    verdict of a pinned rule; `askable`: there is somebody to ask. `unordered` is why the owner's
    words do not order a tainted call, `excess` why a fetch would tell too much; `private`:
    something of the owner's was read. `plan`: it waits for one, or is one. `approvals`: unanswered,
    where nobody answered a question of this turn and it goes on without.
    """

    effect: Effect
    taint: Taint
    provenance: Provenance = Provenance()
    safe: bool = False
    has_grant: bool = False
    is_protected: bool = False
    approvals: Approval | Literal["unanswered"] = "risk"
    ruling: Verdict | None = None
    askable: bool = True
    unordered: str = ""
    excess: str = ""
    private: bool = False
    plan: bool | Literal["proposed"] = False
