"""What a phrase has said of a time, and the rule that it means. Pure."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import MAXYEAR, date, datetime, timedelta

from daemon.core import value
from daemon.triggers.time_words import DAY, HOUR, MINUTE, MONTH, PARTS, WEEK, YEAR

SECONDS = {"second": 1, MINUTE: 60, HOUR: 3600, DAY: 86_400, WEEK: 604_800}
DEFAULT_HOUR, FIRST_HOUR, FIRST_SURE_HOUR = 9, 6, 7
LAST, LAST_SURE_DAY = 9, 28
LATE_PARTS = ("afternoon", "evening", "night")


@value
class Facts:
    """What a phrase has said so far. `spoken`: the hour may be of the morning or of the evening."""

    day: int | None = None
    weekdays: tuple[int, ...] = ()
    month: int | None = None
    dom: int | None = None
    year: int | None = None
    part: str = ""
    hour: int | None = None
    minute: int = 0
    spoken: bool = False
    seconds: int = 0
    months: int = 0
    from_now: bool = False
    every: str = ""  # the unit of what comes again; "interval" of a number of them
    week: bool = False
    more: tuple[int, ...] = ()  # hours before `hour`, at the same minute
    doms: tuple[int, ...] = ()  # days of a month before `dom`
    place: int = 0  # of a day in its month: 2 for its second, LAST
    until: int | None = None  # the last hour of an interval within a day; `hour` is its first


def join_hours(first: Facts, last: Facts) -> Facts | None:
    """Between these two times of day; "9 to 5" ends in the afternoon."""
    if first.hour is None or last.hour is None or first.minute != last.minute:
        return None
    is_late = last.spoken and last.hour < first.hour <= 12
    return replace(first, until=last.hour + 12 * is_late, spoken=False)


def resolve(facts: Facts, now: datetime) -> Iterator[str]:
    """The rules that these facts mean; none where they do not fit together."""
    for hour in _find_hours(facts):
        timed = replace(facts, hour=hour)
        rule = _resolve_again(timed, now) if facts.every else _resolve_once(timed, now)
        if rule:
            yield rule


def _find_hours(facts: Facts) -> Iterable[int | None]:
    hour = facts.hour
    if hour is None:
        return (PARTS[facts.part],) if facts.part else (None,)
    if facts.part == "night" and hour < FIRST_HOUR:
        return (hour,)
    if facts.part in LATE_PARTS and hour < 12:
        return (hour + 12,)
    if facts.part or not facts.spoken:
        return (hour,)
    has_day = facts.every or facts.day is not None or facts.weekdays or facts.dom or facts.from_now
    if (has_day and hour % 12 >= FIRST_SURE_HOUR) or (has_day and hour == 12):
        return (hour,)
    return (hour % 12, hour % 12 + 12)


def _resolve_again(facts: Facts, now: datetime) -> str:
    if facts.from_now or facts.week or facts.year or facts.day is not None:
        return ""
    if facts.every == "interval":
        is_part = facts.seconds < SECONDS[DAY]
        if is_part and (facts.weekdays or facts.until is not None):
            return _resolve_part_of_day(facts)
        if facts.weekdays or facts.dom or facts.hour is not None:
            return _resolve_days(facts, now)
        for unit in (WEEK, DAY, HOUR, MINUTE):
            if facts.seconds and facts.seconds % SECONDS[unit] == 0:
                count = facts.seconds // SECONDS[unit]
                return f"every {count} {unit}" + ("s" if count > 1 else "")
        return ""
    hour = DEFAULT_HOUR if facts.hour is None else facts.hour
    at = f"{facts.minute} {','.join(map(str, (*facts.more, hour)))}"
    if facts.place:
        return _resolve_place(facts, at)
    if facts.months:
        return f"{at} {facts.dom or 1} */{facts.months} *" if not facts.weekdays else ""
    if facts.weekdays:
        return f"{at} * * {_cron_days(facts.weekdays)}" if facts.every in (WEEK, DAY) else ""
    if facts.dom and facts.month:
        return f"{at} {facts.dom} {facts.month} *" if facts.every == YEAR else ""
    if facts.dom:
        days = ",".join(map(str, (*facts.doms, facts.dom)))
        return f"{at} {days} * *" if facts.every == MONTH else ""
    # without a day it is the day of now, of those that each month has
    day = min(now.day, LAST_SURE_DAY)
    days_of = {
        DAY: "* * *",
        WEEK: f"* * {_cron_days((now.weekday(),))}",
        MONTH: f"{day} * *",
        YEAR: f"{day} {now.month} *",
    }
    return f"{at} {days_of[facts.every]}" if not facts.month else ""


def _resolve_part_of_day(facts: Facts) -> str:
    """ "Every hour from 9 to 17": also at 17:00; "every 15 minutes" of that ends before it."""
    step, rest = divmod(facts.seconds, 60)
    first, last = facts.hour or 0, facts.until
    if rest or facts.dom or facts.more or not step or (60 % step and step % 60):
        return ""
    if (step < 60 and facts.minute) or (facts.hour is None) != (last is None) or last == first:
        return ""
    hours = "*"
    if last is not None:
        last = last if step >= 60 else (last - 1) % 24
        hours = f"{first}-{last}" if first <= last else f"{first}-23,0-{last}"
        hours = str(first) if first == last else hours
    if step > 60:
        if last is not None and first > last:
            return ""
        hours += f"/{step // 60}"
    minutes = str(facts.minute) if step >= 60 else f"*/{step}" if step > 1 else "*"
    days = _cron_days(facts.weekdays) if facts.weekdays else "*"
    return f"{minutes} {hours} * * {days}"


def _resolve_days(facts: Facts, now: datetime) -> str:
    """Every so many days at a time of day, from the next such time."""
    days, rest = divmod(facts.seconds, SECONDS[DAY])
    if rest or facts.dom or facts.more or len(facts.weekdays) > 1:
        return ""
    hour = DEFAULT_HOUR if facts.hour is None else facts.hour
    first = now.replace(hour=hour, minute=facts.minute, second=0, microsecond=0)
    while first <= now or (facts.weekdays and first.weekday() not in facts.weekdays):
        first += timedelta(days=1)
    return f"every {days} days at {first:%H:%M} from {first:%Y-%m-%d}"


def _resolve_place(facts: Facts, at: str) -> str:
    """As cron has it: the first monday of a month is 1#1, its last 1l, its last day l."""
    if not facts.weekdays:
        return f"{at} {'l' if facts.place == LAST else facts.place} * *"
    day = _cron_days(facts.weekdays)
    return f"{at} * * {day}{'l' if facts.place == LAST else f'#{facts.place}'}"


def _cron_days(days: tuple[int, ...]) -> str:
    numbers = sorted((day + 1) % 7 for day in days)
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


def _resolve_once(facts: Facts, now: datetime) -> str:
    if facts.from_now:
        if facts.day is not None or facts.weekdays or facts.dom or facts.week:
            return ""
        if not (facts.months or facts.seconds):
            return ""
        at = _add_months(now, facts.months) + timedelta(seconds=facts.seconds)
        if facts.hour is not None:
            if facts.seconds % 86_400 or not (facts.seconds or facts.months):
                return ""
            at = at.replace(hour=facts.hour, minute=facts.minute, second=0)
        return at.isoformat(timespec="seconds")
    hour, given = facts.hour, facts.hour is not None
    hour = DEFAULT_HOUR if hour is None else hour
    clock = {"hour": hour, "minute": facts.minute, "second": 0, "microsecond": 0}
    if facts.dom:
        return _resolve_date(facts, now, hour)
    if facts.weekdays:
        if len(facts.weekdays) != 1:
            return ""
        monday = now - timedelta(days=now.weekday()) + timedelta(days=7 * facts.week)
        at = (monday + timedelta(days=facts.weekdays[0])).replace(**clock)
        at += timedelta(days=7) if at <= now else timedelta()
        return at.isoformat(timespec="seconds")
    if facts.week or not (given or facts.day is not None):
        return ""
    at = (now + timedelta(days=facts.day or 0)).replace(**clock)
    if facts.part == "midnight" and facts.day is not None:
        return ""  # of this day, or of the next
    of_night = facts.part == "night" and hour < FIRST_HOUR  # which ends on the next day
    if (of_night and facts.day) or ((of_night or facts.day is None) and at <= now):
        at += timedelta(days=1)
    return at.isoformat(timespec="seconds") if at > now else ""


def _resolve_date(facts: Facts, now: datetime, hour: int) -> str:
    """The next one of a day without a year, or without a month."""
    years = (facts.year,) if facts.year else (now.year, now.year + 1, now.year + 2)
    for year in years:
        for month in (facts.month,) if facts.month else range(1, 13):
            try:
                day = date(year, month, facts.dom or 1)
            except ValueError:
                continue
            at = datetime(day.year, day.month, day.day, hour, facts.minute)
            if at > now:
                if facts.weekdays and day.weekday() not in facts.weekdays:
                    return ""  # one of the two is wrong
                return at.isoformat(timespec="seconds")
    return ""


def _add_months(at: datetime, count: int) -> datetime:
    """Raises OverflowError beyond the calendar."""
    months = at.month - 1 + count
    year, month = at.year + months // 12, months % 12 + 1
    if year > MAXYEAR:
        raise OverflowError(year)
    for day in range(at.day, 28, -1):
        with suppress(ValueError):
            return at.replace(year=year, month=month, day=day)
    return at.replace(year=year, month=month, day=min(at.day, 28))
