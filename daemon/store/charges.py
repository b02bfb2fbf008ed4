"""What model calls cost their turn: the events of one commit change its row once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from daemon.core.errors import UNBILLED
from daemon.core.events import (
    Consulted,
    Consulting,
    IterationRefunded,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    RecordedEvent,
)
from daemon.core.messages import RequestAdapted

NOTHING = (0, 0.0)


@dataclass(slots=True)
class Charge:
    """One change of a turn's row. `usd`: None where a price is not known. `reserved`: tokens and
    USD of the call that is open now; None for those that the row has. `lost_at`: when what the row
    had reserved was lost, because its call was cut off; None where it is settled, or stays.
    """

    iterations: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = 0.0
    reserved: tuple[int, float] | None = None
    lost_at: datetime | None = None


def fold_charges(recorded: Sequence[RecordedEvent]) -> Iterator[Charge]:
    """In order; mostly one, and none of events that cost nothing."""
    due = Charge()
    for one in recorded:
        match one.event:
            case ModelAsked() | Consulting() as asked:
                if due.reserved is None:
                    due.lost_at = one.at
                elif due.reserved != NOTHING:
                    yield due
                    due = Charge(lost_at=one.at)
                due.reserved = (asked.reserved_tokens, asked.reserved_usd or 0.0)
            # it never reached a model, or was refused
            case ModelReplied(provider="") | Consulted(provider="") | RequestAdapted():
                due.reserved = NOTHING
            case ModelReplied(usage=usage) | Consulted(usage=usage) as answered:
                due.iterations += isinstance(answered, ModelReplied) and answered.is_iteration
                due.input_tokens += usage.input_tokens
                due.output_tokens += usage.output_tokens
                due.cached_tokens += usage.cached_tokens
                if due.usd is not None:
                    due.usd = None if usage.usd is None else due.usd + usage.usd
                due.reserved = NOTHING
            case ModelFailed(error) if error in UNBILLED:
                due.reserved = NOTHING
            case IterationRefunded():
                due.iterations -= 1
    if due != Charge():
        yield due
