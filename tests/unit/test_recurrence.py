"""When a schedule is due, over all zones and changes of the clock (A16, issue 12)."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.triggers.recurrence import BadRule, describe_runs, list_runs, parse_rule, to_instant

NOW = datetime(2026, 3, 28, tzinfo=UTC)
ZONES = sorted(name for name in available_timezones() if "/" in name and "posix" not in name)
CRONS = (
    "30 2 * * *",
    "*/30 * * * *",
    "0 0 * * *",
    "15 1-3 * * 0,6",
    "59 23 1,15 * *",
    "0 8 * * mon-fri",
)
REPEATING = ("*/30 * * * *", "15 1-3 * * 0,6")  # these follow real time


def runs(rule: str, zone: str, after: datetime, most: int) -> list[str]:
    found = list_runs(parse_rule(rule, zone, after), after, most)
    return [at.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M") for at in found]


@pytest.mark.parametrize(
    ("rule", "zone", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28", ["03-28 02:30", "03-29 03:00", "03-30 02:30"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["03-29 03:00", "03-30 02:00", "03-30 02:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24", ["10-24 02:30", "10-25 02:30", "10-26 02:30"]),
        ("0 8 * * 1-5", "America/New_York", "2026-03-28", ["03-30 08:00", "03-31 08:00", "04-01 08:00"]),
        ("0 0 13 * 5", "UTC", "2026-03-28", ["04-03 00:00", "04-10 00:00", "04-13 00:00"]),
        ("0 9 * * 7", "UTC", "2026-03-28", ["03-29 09:00", "04-05 09:00", "04-12 09:00"]),
        ("0 9 * * fri-mon", "UTC", "2026-03-30T10:00", ["04-03 09:00", "04-04 09:00", "04-05 09:00"]),
        ("30 0 * * *", "Africa/Cairo", "2026-04-23", ["04-24 01:00", "04-25 00:30", "04-26 00:30"]),
        ("@daily", "Pacific/Apia", "2011-12-29T11:00", ["12-31 00:00", "01-01 00:00", "01-02 00:00"]),
        ("every 90 minutes", "UTC", "2026-03-28", ["03-28 01:30", "03-28 03:00", "03-28 04:30"]),
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-28", ["03-29 03:00"]),
    ],
)  # fmt: skip
def test_a_rule_is_due_when_the_clock_on_the_wall_says_so(
    rule: str, zone: str, after: str, expected: list[str]
) -> None:
    assert runs(rule, zone, datetime.fromisoformat(after).replace(tzinfo=UTC), 3) == expected


@given(
    st.sampled_from([words for words in CRONS if words not in REPEATING]),
    st.sampled_from(ZONES),
    st.datetimes(datetime(1996, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),
)
def test_a_fixed_local_time_is_due_once_and_in_order(
    words: str, zone: str, after: datetime
) -> None:
    rule, at, keys, instants = parse_rule(words, zone, after), after, list[str](), list[datetime]()
    for _ in range(60):
        due = rule.next_due(at)
        assert due
        keys.append(due.key)
        instants.append(due.at)
        assert due.key == due.at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M")
        at = due.at
    assert len(set(keys)) == len(keys)
    assert all(a < b for a, b in pairwise(instants))


@pytest.mark.parametrize(
    ("zone", "begin"),
    [
        ("Europe/Berlin", "2026-03-28T20:00"),
        ("Europe/Berlin", "2026-10-24T20:00"),
        ("Europe/Dublin", "2026-10-24T20:00"),
        ("Australia/Lord_Howe", "2026-04-04T06:00"),  # half an hour comes again
        ("Antarctica/Troll", "2026-10-24T20:00"),  # two hours come again
        ("Africa/Cairo", "2026-04-23T12:00"),  # clocks jump over midnight
        ("Pacific/Apia", "2011-12-29T12:00"),  # a whole day is left out
        ("UTC", "2026-10-24T20:00"),
    ],
)
@pytest.mark.parametrize("words", ["*/5 * * * *", "0 * * * *", "7 1-3 * * *", "*/20 2 * * *"])
def test_a_rule_with_a_wildcard_hour_or_minute_is_due_whenever_the_local_time_fits(
    words: str, zone: str, begin: str
) -> None:
    now = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    minute, hour = words.split(" ")[:2]
    minutes = range(0, 60, int(minute[2:])) if "/" in minute else [int(minute)]
    hours = {"*": range(24), "1-3": range(1, 4), "2": [2]}[hour]
    instants = (now + timedelta(minutes=n) for n in range(1, 60 * 30))
    expected = [
        at
        for at in instants
        if (local := at.astimezone(ZoneInfo(zone))).hour in hours and local.minute in minutes
    ]
    rule, dues = parse_rule(words, zone, now), []
    for _ in expected:
        dues.append(rule.next_due(dues[-1].at if dues else now))
        assert dues[-1]
    assert [due.at for due in dues] == expected
    assert [due.key for due in dues] == [at.isoformat() for at in expected]


def test_a_wildcard_rule_of_one_night_a_year_is_due_in_both_passes() -> None:
    found = runs("*/30 2 25 10 *", "Europe/Berlin", datetime(2026, 1, 1, tzinfo=UTC), 5)
    assert found == ["10-25 02:00", "10-25 02:30", "10-25 02:00", "10-25 02:30", "10-25 02:00"]


@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(1996, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),
)
def test_a_daily_rule_is_due_on_every_day_that_there_is(zone: str, after: datetime) -> None:
    place = ZoneInfo(zone)
    days = [
        at.astimezone(place).date()
        for at in list_runs(parse_rule("30 2 * * *", zone, after), after, 40)
    ]
    for one, two in pairwise(days):
        missing = [one + timedelta(days=n) for n in range(1, (two - one).days)]
        for (
            day
        ) in missing:  # whole days that a zone left out, when it changed sides of the date line
            noon = datetime(day.year, day.month, day.day, 12)
            assert to_instant(noon, place).astimezone(place).date() != day


def test_an_interval_does_not_drift_whenever_it_is_asked() -> None:
    rule = parse_rule("every 7 minutes", "UTC", NOW)
    later = NOW + timedelta(days=3, seconds=17)
    due = rule.next_due(later)
    assert due and (due.at - NOW) % timedelta(minutes=7) == timedelta()
    assert timedelta() < due.at - later <= timedelta(minutes=7)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("0 0 31 2 *", "never due"),
        ("61 * * * *", "61"),
        ("* * * *", "five fields"),
        ("every 5 parsecs", "'parsecs'"),
        ("every 1 second", "one minute"),
        ("0 0 * * foo", "no weekday"),
        ("0 0 * * 8", "no weekday"),
        ("0 0 1 foo *", "month"),
        ("*/0 * * * *", "minute"),
        ("soon", "cannot be read as a time"),
        ("last fri * * *", "expected"),
        ("0 0 last * *", "expected"),
        ("x" * 100_000, "in 200 characters"),
        ("0 0 1" + ",1" * 50_000 + " * *", "200 characters"),
    ],
)
def test_a_rule_that_cannot_be_used_says_what_is_expected(rule: str, says: str) -> None:
    with pytest.raises(BadRule) as error:
        parse_rule(rule, "UTC", NOW)
    assert says in str(error.value) and len(str(error.value)) < 1000


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "../../etc/passwd", "/etc/passwd", "", "x" * 10_000]
)
def test_an_unknown_zone_is_named(zone: str) -> None:
    with pytest.raises(BadRule, match="no time zone"):
        parse_rule("@daily", zone, NOW)


def test_the_next_runs_and_their_cost_are_told() -> None:
    told = describe_runs(parse_rule("0 8 * * *", "Europe/Berlin", NOW), NOW, 0.02)
    assert "Sat 2026-03-28 08:00 CET, Sun 2026-03-29 08:00 CEST" in told
    assert "About 30 in 30 days, about $0.60" in told
    often = describe_runs(parse_rule("* * * * *", "UTC", NOW), NOW, None)
    assert "About 43200 in 30 days." in often
    rare = describe_runs(parse_rule("every quarter", "UTC", NOW), NOW, 0.02)
    assert "About 4 in a year, about $0.08" in rare
    assert "About 1 in a year." in describe_runs(parse_rule("@yearly", "UTC", NOW), NOW, None)
    rule = parse_rule("0 8 * * *", "UTC", NOW)
    end = NOW + timedelta(days=2)
    assert "Sun 2026-03-29 08:00 UTC (UTC).\nAbout 2 in" in describe_runs(
        rule, NOW, None, until=end
    )
    assert (
        describe_runs(rule, NOW, None, once=True) == "It runs once: Sat 2026-03-28 08:00 UTC (UTC)."
    )
