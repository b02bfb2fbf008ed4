"""Errors that end a turn: a critical tool may not be used, the service behind a tool is down (D3).

The conditions that every turn is held against, in their order (E1).
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from urllib.parse import urlsplit

from daemon.agent.termination.confidence import check_confidence
from daemon.agent.termination.halt import (
    Done,
    Halt,
    HaltCondition,
    check_iterations,
    iterate_results,
)
from daemon.agent.termination.loop_detection import make_circling, make_repeating
from daemon.core.events import Outcome, Stop, ToolFinished
from daemon.core.messages import ToolCall
from daemon.core.turn import Turn
from daemon.core.turn_spec import TurnSpec
from daemon.tools.base import ServiceUnavailable

RUNNING = 3
SHOWN = 200
DENIED = re.compile(
    r"permission denied|operation not permitted|access (?:is |was )?denied|\b(?:EACCES|EPERM)\b|\b403 forbidden",
    re.IGNORECASE,
)
SERVER_ERROR = re.compile(
    rf"{ServiceUnavailable.__name__}|(?:http|status)?[_ ]?5\d\d", re.IGNORECASE
)
Dependency = tuple[str, str]


def make_unrecoverable(critical: Sequence[str]) -> HaltCondition:
    """Nothing that the model does next can help: tools named in `critical` were denied, or a dependency fails and fails."""

    def check(turn: Turn) -> Halt | None:
        latest = next(iterate_results(turn), ())
        detail = _denied(latest, critical) or _down(turn, latest)
        return Halt(Stop.FAILED, detail) if detail else None

    return check


def _denied(latest: Sequence[Done], critical: Sequence[str]) -> str:
    for result, call in latest:
        if call.name in critical and is_denied(result):
            return f"permission_denied: {call.name}: {_why(result)}"
    return ""


def is_denied(result: ToolFinished) -> bool:
    """The gate, a person, or the system behind the tool said no."""
    if result.outcome is Outcome.REJECTED:
        return True
    said_no = result.error_class == PermissionError.__name__ or DENIED.search(result.text)
    return result.outcome is Outcome.ERROR and bool(said_no)


def _down(turn: Turn, latest: Sequence[Done]) -> str:
    """Counted once per iteration, so that parallel calls into one outage are one failure."""
    for result, call in latest:
        tries = (
            list(islice(_tries(turn, dependency(call)), RUNNING)) if _server_failed(result) else []
        )
        if len(tries) == RUNNING and all(tries):
            name = " ".join(part for part in dependency(call) if part)
            return f"dependency: {name} failed {RUNNING} times running ({result.error_class})"
    return ""


def dependency(call: ToolCall) -> Dependency:
    """What a call depends on: the tool, and the host where the call names an address."""
    try:
        url = json.loads(call.arguments)["url"]
        return call.name, urlsplit(url).hostname or ""
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return call.name, ""


def _tries(turn: Turn, wanted: Dependency) -> Iterator[bool]:
    """Whether nothing but server errors came of it, for each iteration that used it, latest first."""
    for done in iterate_results(turn):
        uses = [_server_failed(result) for result, call in done if dependency(call) == wanted]
        if uses:
            yield all(uses)


def _server_failed(result: ToolFinished) -> bool:
    return result.outcome is Outcome.ERROR and bool(SERVER_ERROR.fullmatch(result.error_class))


def _why(result: ToolFinished) -> str:
    """The reason, in one line."""
    try:
        text = str(json.loads(result.text)["reason"])
    except (ValueError, LookupError, TypeError):
        text = result.text
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[:SHOWN] + "..."


@cache
def list_conditions(terms: TurnSpec) -> tuple[HaltCondition, ...]:
    """Errors that nothing can help, the limit of iterations, circles of every kind, and a model that sees no way on."""
    coach = terms.on_stall
    return (
        make_unrecoverable(terms.critical),
        check_iterations,
        make_circling(coach),
        make_repeating(coach),
        check_confidence,
    )
