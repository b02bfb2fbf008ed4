"""What somebody wants done at its time, as a person, the model or the config says it; checked, and
as the row of the journal. Pure.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from daemon.core import value
from daemon.core.errors import UsageError
from daemon.core.requests import NOT_BLANK
from daemon.core.trust import OWNER_NAME, Label, Sources
from daemon.store.tables.schedules import GoalRow, ScheduleRow
from daemon.tools.calls import HEARTBEAT_FILE
from daemon.triggers.conditions import HEARTBEAT_PROMPT, check_condition
from daemon.triggers.config import SchedulerConfig, ScheduleTask
from daemon.triggers.recurrence import BadRule, Due, Recurrence, load_zone, parse_rule

CONFIG, FOLLOW_UP = "config", "follow-up"
HEARTBEAT = "heartbeat"
MOST_JITTER_S, BATCH = 86_400, 100
LATE = timedelta(minutes=10)
LATE_TEXT = "\n\n(This was due at {due}; it runs now, {late} later.)"
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
WORD = re.compile(r"[A-Za-z0-9]+")


@value
class ScheduleRequest:
    """What somebody wants done, and when (`rule`, in `zone`; "" for the owner's). `session` is told
    and asked. `name` "" is one made from the task; `until` an ISO time, "" for no end. `remind`:
    the prompt is told as it is.
    """

    rule: Annotated[str, MinLen(1), MaxLen(200)]
    prompt: Annotated[str, NOT_BLANK]
    session: Annotated[str, MaxLen(200)]
    name: Annotated[str, MaxLen(64)] = ""
    zone: Annotated[str, MaxLen(100)] = ""
    agent: str = "default"
    misfire: Literal["once", "all", "skip"] = "once"
    oneshot: bool = False
    jitter_s: Annotated[int, Ge(0), Le(MOST_JITTER_S)] = 0
    until: Annotated[str, MaxLen(100)] = ""
    remind: bool = False

    @property
    def requested(self) -> dict[str, object]:
        """The fields that a person gives."""
        return {one.name: getattr(self, one.name) for one in fields(ScheduleRequest)}


@value
class ScheduleOrder(ScheduleRequest):
    """A request, and who makes it. `label` is that of what orders it, `turn` the turn of the model
    that did, "" for a person. `private`: what of the owner's own it may tell; `composed`: its words
    are the model's.
    """

    sender: str = OWNER_NAME
    role: str = OWNER_NAME
    label: Label = Label.TRUSTED
    origin: str = "owner"
    turn: str = ""
    condition: str = ""
    private: Sources = ()
    composed: bool = False


def make_row(order: ScheduleOrder, name: str, now: datetime) -> ScheduleRow:
    """The row of a new schedule, not planned yet. Raises BadRule."""
    given = {one.name: getattr(order, one.name) for one in fields(order)}
    given["until"] = parse_until(order.until, order.zone)
    return ScheduleRow(id=name, made_at=now, **given)


def list_tasks(config: SchedulerConfig) -> list[ScheduleTask]:
    """Those of the config, and its heartbeat."""
    if not config.heartbeat:
        return [*config.tasks]
    own = ScheduleTask(
        name=HEARTBEAT,
        schedule=config.heartbeat,
        prompt=HEARTBEAT_PROMPT,
        condition={"file": HEARTBEAT_FILE},
    )
    return [*config.tasks, own]


def order_of_task(task: ScheduleTask, session: str, zone: str) -> ScheduleOrder:
    """What the config orders; `session` and `zone` where the task names none. Raises UsageError."""
    given = task.model_dump(exclude={"schedule", "paused", "session", "zone", "condition"})
    given["condition"] = check_condition(task.condition)
    where = {"session": task.session or session, "zone": task.zone or zone}
    return ScheduleOrder(rule=task.schedule, origin=CONFIG, **where, **given)


def parse_until(text: str, zone: str) -> datetime | None:
    """The instant of an ISO time in this zone; None for "". Raises BadRule."""
    if not text:
        return None
    try:
        return parse_rule(text, zone, datetime.now(UTC)).at
    except BadRule as error:
        raise BadRule(f"until: {error}") from error


def describe_order(row: ScheduleRow) -> ScheduleRow:
    """What its owner set, without what became of it."""
    own = {"id": "", "made_at": datetime.min, "state": "", "seen": "", "trouble": ""}
    return replace(row, **own, due=None, fires_at=None)


def show_row(row: ScheduleRow | GoalRow) -> dict[str, object]:
    """As JSON; its times as ISO instants."""
    told = {one.name: getattr(row, one.name) for one in fields(row)}
    return {k: one.isoformat() if isinstance(one, datetime) else one for k, one in told.items()}


def make_name(prompt: str, taken: Collection[str]) -> str:
    """A name from the first words that no other schedule has."""
    words = "-".join(WORD.findall(prompt.lower())[:4])[:40] or "task"
    numbered = (f"{words}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (words, *numbered) if name not in taken)


def check_order(order: ScheduleOrder) -> None:
    """Raises UsageError for what cannot be scheduled."""
    if not order.prompt.strip():
        raise UsageError("the task is empty; say what is to be done then")
    if not NAME.fullmatch(order.name):
        raise UsageError(
            f"{order.name!r} is no name; expected letters, digits, '_', '-', '.', at most 64"
        )
    if order.misfire not in ("once", "all", "skip"):
        raise UsageError(f"misfire: found {order.misfire!r}, expected once, all or skip")
    if order.remind and order.condition:
        raise UsageError("a reminder has no condition; leave out one of them")
    if order.remind and order.role != OWNER_NAME and order.session.startswith("web:"):
        raise UsageError(
            "a reminder cannot reach you over HTTP; set it in a chat where the assistant can write"
            " to you"
        )
    if not 0 <= order.jitter_s <= MOST_JITTER_S:
        raise UsageError(f"jitter: found {order.jitter_s}, expected 0 to {MOST_JITTER_S} seconds")


def describe_delay(row: ScheduleRow, due: Due, now: datetime) -> str:
    """What is told of a time that passed while nothing ran; "" for one that is just now."""
    if now - due.at <= LATE + timedelta(seconds=row.jitter_s):
        return ""
    late = timedelta(seconds=round((now - due.at).total_seconds()))
    when = due.at.astimezone(load_zone(row.zone)).strftime("%Y-%m-%d %H:%M")
    return LATE_TEXT.format(due=when, late=late)


def recurrence_of(row: ScheduleRow) -> Recurrence:
    """Raises BadRule, where a zone is not known any more."""
    return parse_rule(row.rule, row.zone, row.made_at)


def plan_next(
    row: ScheduleRow, after: datetime, chance: Callable[[int], float], known: Callable[[str], bool]
) -> ScheduleRow:
    """The row with its first due time after this instant that was not taken before; over where
    there is none. Raises BadRule.
    """
    rule = recurrence_of(row)
    due = rule.next_due(after)
    while due and known(due.key):
        due = rule.next_due(due.at)
    if due is None or (row.until and due.at > row.until):
        return replace(row, due=None, fires_at=None, state="over")
    delay = timedelta(seconds=chance(row.jitter_s)) if row.jitter_s else timedelta()
    return replace(row, due=due.at, fires_at=due.at + delay)


def list_passed(row: ScheduleRow, now: datetime) -> list[Due]:
    """The due times that have come by now and are to be looked at: the first, or with `all` each of
    them, at most BATCH; none later than `until`. Raises BadRule.
    """
    if row.due is None:
        return []
    rule, found, last = recurrence_of(row), list[Due](), min(now, row.until or now)
    due = rule.next_due(row.due - timedelta(microseconds=1))
    while due and due.at <= last and len(found) < BATCH:
        found.append(due)
        if row.misfire != "all" or row.oneshot:
            break
        due = rule.next_due(due.at)
    return found
