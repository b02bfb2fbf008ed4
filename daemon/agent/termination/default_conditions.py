"""The stop conditions of every turn, in their order (E1), and errors that end a turn (D3)."""

import json
import re
from urllib.parse import urlsplit

from daemon.agent.termination.confidence import check_confidence
from daemon.agent.termination.halt import (
    Halt,
    check_iterations,
    iterate_results,
)
from daemon.agent.termination.loop_detection import check_circling, check_repetition
from daemon.core.events import Outcome, Stop, ToolFinished
from daemon.core.messages import ToolCall
from daemon.core.turn import Turn

RUNNING = 3
SHOWN = 200
DENIED = re.compile(
    r"permission denied|operation not permitted|access (?:is |was "
    r")?denied|\b(?:EACCES|EPERM)\b|\b403 forbidden",
    re.IGNORECASE,
)
SERVER_ERROR = re.compile(r"(?:Service)?Unavailable|(?:http|status)?[_ ]?5\d\d", re.IGNORECASE)


def find_halt(turn: Turn) -> Halt | None:
    """The first condition that holds: unrecoverable errors, the limit of iterations, loops, a
    model that sees no way on.
    """
    if turn.reply is None:
        return check_iterations(turn)
    found = (condition(turn) for condition in CONDITIONS)
    return next((halt for halt in found if halt), None)


def check_unrecoverable(turn: Turn) -> Halt | None:
    """Nothing that the model does next can help: a critical tool was denied, or a service fails
    again and again.
    """
    latest = next(iterate_results(turn), ())
    for result, call in latest:
        if call.name in turn.spec.critical and is_denied(result):
            return Halt(Stop.FAILED, f"permission_denied: {call.name}: {_get_reason(result)}")
    for (
        result,
        call,
    ) in latest:  # counted once per iteration: parallel calls into one outage are one failure
        if not _is_server_failure(result):
            continue
        wanted, tries = find_dependency(call), 0
        for done in iterate_results(turn):
            uses = [one for one, its_call in done if find_dependency(its_call) == wanted]
            if uses and not all(map(_is_server_failure, uses)):
                break
            tries += bool(uses)
        if tries >= RUNNING:
            name = " ".join(part for part in wanted if part)
            detail = f"dependency: {name} failed {RUNNING} times running ({result.error_class})"
            return Halt(Stop.FAILED, detail)
    return None


def is_denied(result: ToolFinished) -> bool:
    """The gate, a person, or the system behind the tool said no."""
    if result.outcome is Outcome.REJECTED:
        return True
    said_no = result.error_class == PermissionError.__name__ or DENIED.search(result.text)
    return result.outcome is Outcome.ERROR and bool(said_no)


def find_dependency(call: ToolCall) -> tuple[str, str]:
    """What a call depends on: the tool, and the host where the call names an address."""
    try:
        url = json.loads(call.arguments)["url"]
        return call.name, urlsplit(url).hostname or ""
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return call.name, ""


def _is_server_failure(result: ToolFinished) -> bool:
    return result.outcome is Outcome.ERROR and bool(SERVER_ERROR.fullmatch(result.error_class))


def _get_reason(result: ToolFinished) -> str:
    """The reason, in one line."""
    try:
        text = str(json.loads(result.text)["reason"])
    except (ValueError, LookupError, TypeError):
        text = result.text
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[:SHOWN] + "..."


CONDITIONS = (
    check_unrecoverable,
    check_iterations,
    check_circling,
    check_repetition,
    check_confidence,
)
