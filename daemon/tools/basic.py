"""The small tools: current_time, request_more_iterations (A6), todo (E3), ask_user (H1),
find_tools.
"""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BaseModel, ConfigDict, Field

from daemon.core.events import BudgetExtended, Todo, TodosSet
from daemon.core.messages import ToolSpec
from daemon.core.quoted import find_quoted
from daemon.core.trust import Answer, Effect
from daemon.tools.base import Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.registry import ToolRegistry
from daemon.tools.signature import tool, with_check

EXTRA_ITERATIONS = 10
MAX_STEPS, MAX_STEP_CHARS = 30, 200
MAX_QUESTION_CHARS, MAX_OPTIONS, MAX_OPTION_CHARS = 500, 4, 60


@tool(effect=Effect.READ, parallel=True, volatile=True, public=True)
async def current_time(context: ToolContext, zone: str = "") -> str:
    """The time now. zone: Europe/Lisbon."""
    zone = zone.strip() or context.turn.zone
    now, found = context.clock.now(), find_zone(zone) if zone else None
    local = now.astimezone(found)
    where = f" in {found}" if found else f"; UTC {now.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    name = local.tzname() or "local"
    return f"{local:%A, %Y-%m-%d %H:%M:%S} {name} (UTC{local:%z}){where}"


def find_zone(name: str) -> tzinfo:
    """By its IANA name or its city, in any case. Raises ToolError, which names those near it."""
    zones = _list_zones()
    wanted = " ".join(name.lower().replace("_", " ").split())
    if wanted not in zones:
        wanted = wanted.partition(",")[0]
    if wanted in zones:
        return ZoneInfo(zones[wanted])
    near = [zones[one] for one in get_close_matches(wanted, zones, n=5)]
    hint = ", ".join(dict.fromkeys(near)) or "an IANA name such as Europe/Lisbon"
    raise ToolError(f"zone: {name[:80]!r} is unknown; expected {hint}")


@cache
def _list_zones() -> dict[str, str]:
    """Zones by their names and the city in them, in small letters; hundreds of files are looked
    at.
    """
    zones: dict[str, str] = {}
    # Etc/GMT+2 is two hours behind UTC, which nobody means.
    for zone in sorted(one for one in available_timezones() if one[:4] not in ("Etc/", "loca")):
        plain = zone.lower().replace("_", " ")
        zones |= {plain: zone}
        zones.setdefault(plain.rpartition("/")[2], zone)
    return zones


@tool(effect=Effect.READ, volatile=True, public=True)
async def request_more_iterations(context: ToolContext, reason: str) -> ToolOutput:
    """Ask for 10 more iterations, when you have a clear plan and are running out of them."""
    turn = context.turn
    cap = turn.limits.max_iterations_cap
    if not reason.strip():
        raise ToolError("reason is empty; say what the iterations are needed for")
    if turn.max_iterations >= cap:
        raise ToolError(
            f"the limit of {cap} iterations is reached; there are no more."
            " Finish with what you have."
        )
    granted = min(turn.max_iterations + EXTRA_ITERATIONS, cap)
    text = f"granted: at most {granted} iterations in all, {granted - turn.iterations} of them left"
    return ToolOutput(text, events=(BudgetExtended(context.call_id, reason.strip(), granted),))


class TodoItem(BaseModel):
    """One step, as the model writes it."""

    model_config = ConfigDict(extra="ignore")

    text: str = Field(min_length=1)
    state: Literal["open", "doing", "done"] = "open"


@tool(effect=Effect.READ, volatile=True, public=True)
async def todo(context: ToolContext, items: list[TodoItem]) -> ToolOutput:
    """Write down your plan, all steps each time: {text, state: open|doing|done}."""
    if len(items) > MAX_STEPS:
        raise ToolError(f"a plan has at most {MAX_STEPS} steps; put small ones together")
    plan = tuple(Todo(" ".join(item.text.split())[:MAX_STEP_CHARS], item.state) for item in items)
    left = sum(item.state != "done" for item in plan)
    text = f"written down: {len(plan)} steps, {left} left"
    return ToolOutput(text, events=(TodosSet(context.call_id, plan),))


@tool(effect=Effect.READ, volatile=True, public=True, asks=True)
async def ask_user(
    context: ToolContext, question: str, options: list[str] | None = None, default: str = ""
) -> ToolOutput:
    """Ask the user one short question and wait, where you cannot go on without them. options: two
    to four; they may write something else. default: the option to go on with if nobody answers.
    """
    answered = context.turn.call(context.call_id).answered
    assert answered  # the executor has asked
    reason = answered.reason and f": {answered.reason}"
    if find_quoted(answered.reason):  # what a person pasted is told in their message only
        reason = ""
    match answered.answer:
        case Answer.CHOICE:  # the option is as far from the user's word as the turn that made it
            text = f"They chose: {answered.reason}"
        case Answer.TEXT:
            text = f"They answer in their own words, in the message below{reason}"
        case Answer.EXPIRED:
            text = "Nobody answered in time. " + (
                f"Go on with the default: {default}. Every effect needs their yes."
                if default
                else "Do nothing that needs their answer; say what is missing."
            )
        case _:
            text = f"They do not want to answer{reason}. Say what you cannot do without it."
    return ToolOutput(text, label=context.turn.label, from_owner=False)


def ask_tool() -> Tool:
    """With a check of the question before it is put."""

    def check(given: Mapping[str, Any]) -> None:
        question, default, options = given["question"], given["default"], given["options"] or []
        named = {" ".join(one.split()).casefold() for one in options}
        if not 0 < len(question.strip()) <= MAX_QUESTION_CHARS:
            raise ToolError(f"question: expected 1 to {MAX_QUESTION_CHARS} characters")
        if len(named) < len(options) or len(options) not in (0, *range(2, MAX_OPTIONS + 1)):
            raise ToolError("options: expected two to four different ones, or none")
        if "" in named or any(len(one) > MAX_OPTION_CHARS for one in options):
            raise ToolError(f"options: expected 1 to {MAX_OPTION_CHARS} characters each")
        if default and default not in options:
            raise ToolError("default: expected one of the options, letter for letter")

    return with_check(ask_user, check)


@tool(effect=Effect.READ, parallel=True, public=True)
async def find_tools(catalogue: ToolRegistry, query: str) -> ToolOutput:
    """Find tools (web, mail, ask)."""
    if not query.strip():
        raise ToolError("query is empty; say in a few words what the tool should do")
    found = catalogue.search(query)
    offers = tuple(spec.name for spec in found)
    names = offers or catalogue.names()
    lines = [_describe_offer(catalogue, spec) for spec in found]
    text = "\n".join(["You can call these from now on:", *lines])
    if not found:
        text = f"no tool fits {query!r}; all there are: {', '.join(names)}"
    return ToolOutput(text, offers=offers)


def _describe_offer(catalogue: ToolRegistry, spec: ToolSpec) -> str:
    """What a server says of its tools is a stranger's text (A22): it stands in the list of tools
    only, so that a search for tools makes no chat a stranger's.
    """
    tool = catalogue.get(spec.name)
    server = tool.meta.source if tool else ""
    return f"{spec.name}: " + (f"a tool of the server {server}" if server else spec.description)
