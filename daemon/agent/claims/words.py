"""What the claims of a reply are described in: kinds, verbs, shapes; each language is a table of them (F6)."""

from enum import StrEnum

from daemon.core import value


class Kind(StrEnum):
    """What a reply says has been done; the value completes "no result shows that ..."."""

    SENT = "anything was sent"
    POSTED = "anything was posted or uploaded"
    DELETED = "anything was deleted"
    CANCELLED = "anything was cancelled"
    SCHEDULED = "anything was scheduled"
    SAVED = "anything was saved"
    CREATED = "anything was created"
    CHANGED = "anything was changed"
    REMEMBERED = "anything was kept in memory"
    RAN = "anything was run"
    PASSED = "the tests were run and passed"
    BOOKED = "anything was booked or ordered"
    PAID = "anything was paid"
    INSTALLED = "anything was installed"


@value
class Row:
    """Verbs of one kind. `needs`: the sentence must have this; `barred`: it is something else when this follows the verb.

    `shown`: it may as well be done to a text that the reply itself shows.
    """

    kind: Kind
    verbs: str
    needs: str = ""
    barred: str = ""
    shown: bool = False


@value
class Shape:
    """One way to say that it is done: `pattern` has the group `v`; `head` must be all that stands before it in the sentence.

    `tail` must follow. In `<V>` go the verbs, in `<DO>` their plain forms. `report`: it may as well be told of others.
    `weak`: it may be a plain description; it counts only in a short reply of a turn that has read nothing.
    `bare`: it says not who did it; like a report it may be an item in a list of news, and counts there only in a reply that is
    marked (see Tongue).
    """

    pattern: str
    head: str = ".*"
    tail: str = ""
    report: bool = False
    weak: bool = False
    bare: bool = False


@value
class Tongue:
    """A language. `innocent` anywhere in a sentence clears it; `told` clears what may be a report; `denied` before the verb.

    Once the turn has read something, what may be a report counts only of `own` things, or where the reply is `marked` as an
    account of work done.
    """

    rows: tuple[Row, ...]
    shapes: tuple[Shape, ...]
    innocent: str
    told: str
    denied: str
    own: str
    marked: str
    bases: tuple[Row, ...] = ()
