"""Another time or another task for a schedule that stands (E3)."""

from dataclasses import replace

from daemon.core.errors import UsageError
from daemon.core.trust import OWNER_SAID, TextLabel, join_sources
from daemon.store.journal import Tx
from daemon.store.tables.schedules import ScheduleRow
from daemon.triggers.orders import CONFIG
from daemon.triggers.recurrence import parse_rule
from daemon.triggers.schedules import ScheduleEngine


async def change_schedule(
    engine: ScheduleEngine,
    name: str,
    when: str = "",
    prompt: str = "",
    zone: str = "",
    *,
    origin: str,
    label: TextLabel = OWNER_SAID,
) -> ScheduleRow:
    """The schedule of this name or id with a new rule, a new task, or both; what is "" stays. One
    that was over begins again; one that is paused stays so. `origin` is whose words the prompt
    is; `label` that of the change. Raises UsageError: nothing was changed.
    """
    now = engine.clock.now()

    def work(tx: Tx) -> ScheduleRow:
        row = tx.find_schedule(name, name)
        if row is None or row.state == "removed":
            raise UsageError(f"There is no schedule {name}; nothing was changed")
        if row.lane or row.origin == CONFIG:
            where = "belongs to a goal; see /goals" if row.lane else "is set in config.toml"
            raise UsageError(f"{row.name} {where}; nothing was changed")
        if not when.strip() and not prompt.strip():
            raise UsageError("neither a new time nor a new task is given; nothing was changed")
        if prompt.strip():
            row = replace(row, prompt=prompt.strip(), origin=origin, composed=label.composed)
            row = replace(row, private=join_sources((row.private, label.private)))
        row = replace(row, label=row.label.join_with(label.integrity))
        if when.strip():
            rule = parse_rule(when, zone or engine.zone, now)
            state = row.state if row.state == "paused" else "active"
            oneshot = row.oneshot and rule.kind == "once"
            given = {"rule": rule.text, "zone": rule.zone, "state": state, "oneshot": oneshot}
            row = replace(row, made_at=now, **given)
            planned = engine.plan(row, now, tx)
            if planned.due is None:
                end = f", or after its end, {row.until:%Y-%m-%d}" if row.until else ""
                raise UsageError(f"{when!r} lies in the past{end}; nothing was changed")
            row = row if state == "paused" else planned
        tx.put_schedule(row)
        return row

    return await engine.save(work)
