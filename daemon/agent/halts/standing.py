"""The conditions that every turn is held against, in their order (E1)."""

from functools import cache

from daemon.agent.halting import HaltCondition, out_of_iterations
from daemon.agent.halts.circles import circling
from daemon.agent.halts.confidence import low_confidence
from daemon.agent.halts.repetition import repeating
from daemon.agent.halts.unrecoverable import unrecoverable
from daemon.core.terms import Terms


@cache
def standing(terms: Terms) -> tuple[HaltCondition, ...]:
    """Errors that nothing can help, the limit of iterations, circles of every kind, and a model that sees no way on."""
    coach = terms.on_stall
    return (
        unrecoverable(terms.critical),
        out_of_iterations,
        circling(coach),
        repeating(coach),
        low_confidence,
    )
