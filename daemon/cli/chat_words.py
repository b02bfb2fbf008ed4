"""What happens in a run, in a few words each. Pure."""

import json
from collections.abc import Mapping

from channels.terminal_items import Plan
from channels.terminal_text import call_text, one_line

Data = Mapping[str, object]

ERRORS = {
    "auth": "the key was refused",
    "billing": "no credit left",
    "rate_limit": "rate limited",
    "overloaded": "the model is overloaded",
    "timeout": "no answer in time",
    "network": "no connection",
    "server": "the server failed",
    "malformed": "the answer was garbled",
    "not_found": "no such model",
    "context_too_long": "too long for this model",
    "bad_request": "the request was refused",
}
FAILED = {"failed", "quarantined"}
ANSWERS = {"once": "allowed once", "session": "allowed for this session", "always": "always allowed from now on"}
REFUSALS = {"deny": "not allowed", "expired": "nobody answered in time, not allowed"}


def running(tool: str, arguments: str) -> str:
    """What the spinner says while a tool runs."""
    return f"running {call_text(tool, arguments).removeprefix('shell ').removesuffix('…')} …"


def outcome(data: Data) -> str:
    """How a call ended, in a few words."""
    text, how, code = text_of(data, "text"), text_of(data, "outcome"), data.get("exit_code")
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("exit_code: ")]
    first = one_line(lines[0], 80) if lines else ""
    if how in {"not_run", "unknown"}:
        return "not run" if how == "not_run" else "outcome unknown: it may or may not have happened"
    if how == "rejected":
        return "not allowed"
    if isinstance(code, int) and code != 0:
        return f"exit {code}" + (f": {first}" if first else "")
    if data.get("is_error"):
        return f"failed: {first}" if first else "failed"
    return (first or "done") if len(lines) <= 1 else f"{len(lines)} lines"


def text_of(data: Data, key: str) -> str:
    """What stands there, if it is a text."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def number_of(data: Data, key: str) -> float:
    """What stands there, if it is a number."""
    value = data.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def plan_of(data: Data) -> Plan:
    """The plan that the model wrote down."""
    items = data.get("items")
    return tuple((str(item["text"]), str(item["state"])) for item in (items if isinstance(items, list) else []))


def plan_words(plan: Plan) -> str:
    """How far a plan is, and what is at hand."""
    done = sum(state == "done" for _, state in plan)
    now = next((text for text, state in plan if state == "doing"), "")
    return f"{done} of {len(plan)} done" + (f", now: {one_line(now, 80)}" if now else "")


def ended_of(text: str) -> tuple[str, str] | None:
    """(why it ended, what it answered) of an agent that was waited for; None where it never began."""
    first, _, answer = text.partition("\n")
    try:
        told = json.loads(first)
    except ValueError:
        return None
    if not isinstance(told, dict) or "stop_reason" not in told:
        return None
    return str(told["stop_reason"]).replace("_", " "), answer


def raised_words(data: Data) -> str:
    """What a budget was raised to."""
    if number_of(data, "day_usd") or number_of(data, "day_tokens"):
        usd, tokens = number_of(data, "day_usd"), number_of(data, "day_tokens")
        return f"${usd:g} more today" if usd else f"{tokens:,.0f} tokens more today"
    caps = [f"${number_of(data, 'max_usd'):g}"] if data.get("max_usd") is not None else []
    caps += [f"{number_of(data, 'max_input_tokens'):,.0f} tokens"] if data.get("max_input_tokens") is not None else []
    return f"up to {' and '.join(caps)}"
