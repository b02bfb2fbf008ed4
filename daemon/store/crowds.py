"""A person's attention is a budget: how many questions stand open that nobody began (trust.md)."""

from collections.abc import Sequence

MAX_OF_SOURCE, MAX_OF_CHANNEL, MAX_OPEN = 5, 20, 40  # questions that are put to the owner
MAX_WAITING = 200  # others that wait to be put
Source = tuple[str, str]  # and its channel


def find_source(session: str) -> Source:
    """("email/work", "email") of "email/work:THREAD", ("event", "event") of "event_ID"."""
    place, _, rest = session.partition(":")
    source = place if rest else session.partition("_")[0]
    return source, source.partition("/")[0]


def can_put(source: Source, asked: Sequence[Source]) -> bool:
    """One more may be put, beside those that stand."""
    of_channel = sum(one[1] == source[1] for one in asked)
    is_own_full = asked.count(source) >= MAX_OF_SOURCE or of_channel >= MAX_OF_CHANNEL
    return not is_own_full and len(asked) < MAX_OPEN


def choose_next(waiting: Sequence[Source], asked: Sequence[Source]) -> int | None:
    """Which of those that wait, oldest first, is put now: the oldest of the source that has the
    fewest; None where there is no room.
    """
    fits = [at for at, source in enumerate(waiting) if can_put(source, asked)]
    return min(fits, key=lambda at: (asked.count(waiting[at]), at), default=None)
