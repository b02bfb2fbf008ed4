"""Schedules, and each time that one was due (A16); goals (G6)."""

from dataclasses import replace
from datetime import datetime

from daemon.core import value
from daemon.core.trust import Label, Sources
from daemon.store.tables.base import Get, Insert, List, RowMapper, Run, Table, Value


@value
class ScheduleRow:
    """Work that begins by itself. `due` is the next time, `fires_at` that time with its jitter;
    None when there is none. `session` is the conversation that is told and asked.

    origin: config, owner, model. misfire: what becomes of times that passed while nothing ran:
    once, all, skip. state: active, paused, over, removed. `label` is that of what made it. `seen`
    and `trouble`: what its condition found the last time, and what was told of it. `lane`: the one
    session of all its runs, a goal's; "" for a new one each time. `remind`: its text is told as it
    is, without a model. `private`: what of the owner's own the prompt may tell; `composed`: its
    words are the model's.
    """

    id: str
    name: str
    origin: str
    rule: str
    zone: str
    prompt: str
    session: str
    sender: str
    role: str
    label: Label
    turn: str
    made_at: datetime
    agent: str = "default"
    misfire: str = "once"
    oneshot: bool = False
    jitter_s: int = 0
    until: datetime | None = None
    condition: str = ""
    state: str = "active"
    due: datetime | None = None
    fires_at: datetime | None = None
    seen: str = ""
    trouble: str = ""
    lane: str = ""
    remind: bool = False
    private: Sources = ()
    composed: bool = False


@value
class OccurrenceRow:
    """One time that a schedule was due; `key` names it, whatever happens to clocks and zones.
    state: checking (its condition), nothing new, fired (`turn` began), told (a reminder), skipped
    (`detail` says why).
    """

    schedule: str
    key: str
    due: datetime
    at: datetime
    state: str
    turn: str = ""
    detail: str = ""


@value
class GoalRow:
    """Work of many days; what runs for it are the schedules of its session's lane. `told`: the
    conversation that is told and asked; `usd`: its budget. state: active, paused, done, stopped;
    `note`: why.
    """

    id: str
    session: str
    told: str
    text: str
    usd: float
    made_at: datetime
    state: str = "active"
    note: str = ""


SCHEDULES = RowMapper(ScheduleRow, "schedules")
REPLACE = """ON CONFLICT (id) DO UPDATE SET name = excluded.name, rule = excluded.rule, zone =
    excluded.zone, prompt = excluded.prompt, session = excluded.session, agent = excluded.agent,
    misfire = excluded.misfire, oneshot = excluded.oneshot, jitter_s = excluded.jitter_s, until =
    excluded.until, condition = excluded.condition, label = excluded.label, made_at =
    excluded.made_at, state = excluded.state, due = excluded.due, fires_at = excluded.fires_at,
    seen = excluded.seen, trouble = excluded.trouble, remind = excluded.remind,
    origin = excluded.origin, private = excluded.private, composed = excluded.composed"""
GOALS = RowMapper(GoalRow, "goals")
REPLACE_GOAL = """ON CONFLICT (id) DO UPDATE SET usd = excluded.usd, state = excluded.state, note =
    excluded.note"""
HALT = """UPDATE schedules SET state = ?, due = NULL, fires_at = NULL WHERE lane = ? AND state <>
    'removed'"""
SUM_SPENT = """WITH RECURSIVE below(id) AS (SELECT id FROM turns WHERE session = ?3
    UNION SELECT children.turn FROM children JOIN below ON children.parent = below.id)
    SELECT COALESCE(SUM(reserved_usd + lost_usd +
    COALESCE(usd, (input_tokens * ?1 + output_tokens * ?2) / 1e6)), 0.0)
    FROM turns JOIN below USING (id)"""
OCCURRENCES = RowMapper(OccurrenceRow, "occurrences")
UNFINISHED = """SELECT COUNT(*) FROM occurrences JOIN inbox ON inbox.turn = occurrences.turn
    WHERE occurrences.schedule = ? AND inbox.state IN ('new', 'taken')"""


class ScheduleTables(Table):
    """The schedules, occurrences and goals tables."""

    put_schedule = Insert(SCHEDULES, REPLACE)
    """Insert, or bring up what stands there. Raises Conflict for a name that is taken."""

    get_schedule = Get[[str], ScheduleRow](SCHEDULES, "WHERE id = ?")

    find_schedule = Get[[str, str], ScheduleRow](
        SCHEDULES, "WHERE (name = ? OR id = ?) AND state <> 'removed'"
    )

    list_removed = List[[str], ScheduleRow](
        SCHEDULES, "WHERE name = ? AND state = 'removed' AND origin <> 'config' ORDER BY n DESC"
    )

    list_schedules = List[[], ScheduleRow](SCHEDULES, "WHERE state <> 'removed' ORDER BY n")
    """Those that were not removed, oldest first."""

    list_due_schedules = List[[datetime], ScheduleRow](
        SCHEDULES, "WHERE state = 'active' AND fires_at <= ? ORDER BY fires_at, n LIMIT 100"
    )

    get_next_fire = Value[[], int | None](
        "SELECT MIN(fires_at) FROM schedules WHERE state = 'active'"
    )
    """Microseconds since 1970 of what comes next."""

    def add_occurrence(self, row: OccurrenceRow) -> bool:
        """False when this time of the schedule is there already."""
        return self._insert(OCCURRENCES, "ON CONFLICT (schedule, key) DO NOTHING", row)

    get_occurrence = Get[[str, str], OccurrenceRow](OCCURRENCES, "WHERE schedule = ? AND key = ?")

    list_occurrences = List[[str, int], OccurrenceRow](
        OCCURRENCES, "WHERE schedule = ? ORDER BY n DESC LIMIT ?"
    )
    """The latest first."""

    list_checking = List[[], OccurrenceRow](OCCURRENCES, "WHERE state = 'checking' ORDER BY n")

    set_occurrence = Run[[str, str, str, str]](
        "UPDATE occurrences SET state = ?, turn = ? WHERE schedule = ? AND key = ?"
    )

    forget_looks = Run[[str, datetime]](
        "DELETE FROM occurrences WHERE schedule = ? AND due < ? AND state = 'nothing new'"
    )

    count_unfinished_runs = Value[[str], int](UNFINISHED)

    list_lane = List[[str], ScheduleRow](SCHEDULES, "WHERE lane = ? AND state <> 'removed'")

    put_goal = Insert(GOALS, REPLACE_GOAL)
    """Insert, or bring up what stands there."""

    get_goal = Get[[str], GoalRow](GOALS, "WHERE id = ?")

    get_goal_of = Get[[str], GoalRow](GOALS, "WHERE session = ?")

    list_goals = List[[int], GoalRow](
        GOALS, "ORDER BY state IN ('done', 'stopped'), n DESC LIMIT ?"
    )
    """Those that are not over first, the newest first."""

    def halt_goal(self, goal: GoalRow, state: str, note: str = "") -> None:
        """Nothing more begins for it: paused, or for good."""
        self.put_goal(replace(goal, state=state, note=note))
        self._run(HALT, "paused" if state == "paused" else "removed", goal.session)

    sum_spent = Value[[float, float, str], float](SUM_SPENT)
    """USD of a session's turns and of their agents'. Where a price is not known, it is counted at
    these prices of a million tokens sent and received.
    """

    get_usual_cost = Value[[], float | None](
        "SELECT AVG(usd) FROM"
        " (SELECT usd FROM turns WHERE state = 'ended' ORDER BY n DESC LIMIT 20)"
    )
    """USD of one of the latest turns; None where none has a price."""
