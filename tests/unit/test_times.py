"""Times in ordinary words: 213 phrases in English, 60 each in German, French and Spanish, written down before the first run."""

from collections import Counter
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from daemon.triggers.config import ScheduleTask
from daemon.triggers.recurrence import BadRule, list_runs, parse_rule

ZONE = "Europe/Berlin"
NOW = datetime(2026, 11, 26, 10, 0, tzinfo=ZoneInfo(ZONE))
TABLE = Path(__file__).parents[1] / "data" / "times.tsv"
ROWS = [line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#")]
RIGHT = {"en": 0.9, "de": 0.8, "fr": 0.8, "es": 0.8}


def read(phrase: str) -> str:
    """The local time, the rule, or "?" where it is asked back."""
    try:
        rule = parse_rule(phrase, ZONE, NOW)
    except BadRule:
        return "?"
    if rule.kind == "interval":
        return f"every {rule.every}"
    if rule.at is None:
        return rule.text
    return rule.at.astimezone(ZoneInfo(ZONE)).replace(tzinfo=None).isoformat().removesuffix(":00")


def test_phrases_are_read_right_and_none_is_read_wrong_without_asking() -> None:
    right, count, wrong = Counter[str](), Counter[str](), list[str]()
    for language, phrase, meant in ROWS:
        found, meant = read(phrase), read(meant) if meant.startswith("every") else meant
        count[language] += 1
        right[language] += found == meant
        if found not in (meant, "?"):
            wrong.append(f"{phrase}: {found}, not {meant}")
    assert {one: right[one] / count[one] >= share for one, share in RIGHT.items()} == dict.fromkeys(
        RIGHT, True
    )
    assert len(wrong) <= len(ROWS) // 100, wrong


@pytest.mark.parametrize(
    ("phrase", "readings"),
    [
        ("at 8", "Thursday, 2026-11-26 20:00"),
        ("at 8", "Friday, 2026-11-27 08:00"),
        ("tomorrow at half past six", "Friday, 2026-11-27 06:30 or Friday, 2026-11-27 18:30"),
        ("05/06/2027 at 9", "2027-06-05 09:00"),
        ("05/06/2027 at 9", "2027-05-06 09:00"),
    ],
)
def test_what_may_mean_two_times_is_asked_with_both(phrase: str, readings: str) -> None:
    with pytest.raises(BadRule, match="Which one") as asked:
        parse_rule(phrase, ZONE, NOW)
    assert readings in str(asked.value)


@pytest.mark.parametrize(
    "phrase", ["soon", "every 2 hours at 9", "tomorrow at 9 or 10", "on february 30"]
)
def test_what_cannot_be_read_is_answered_with_examples_and_without_cron(phrase: str) -> None:
    with pytest.raises(BadRule, match="tomorrow at 9:00") as refused:
        parse_rule(phrase, ZONE, NOW)
    assert "cron" not in str(refused.value) and "fields" not in str(refused.value)


def test_a_long_or_hostile_phrase_takes_no_time() -> None:
    for phrase in ("every " * 30, "1 " * 90, "and monday " * 15, "a " * 99, "at at at " * 20):
        assert read(phrase) == "?"


@pytest.mark.parametrize(
    ("rule", "same"),
    [
        ("0 8 * * monday-friday", "0 8 * * 1-5"),
        ("0 8 1 January,July *", "0 8 1 1,7 *"),
        ("0 9 ? * MON-FRI", "0 9 * * 1-5"),
        ("0 0 9 ? * MON-FRI", "0 9 * * 1-5"),
        ("0 0 9 * * ? *", "0 9 * * *"),
        ('"0 9 * * 1-5"', "0 9 * * 1-5"),
        ("`0 9 * * *`", "0 9 * * *"),
        ("0 9 * * 1-5 Europe/Berlin", "0 9 * * 1-5"),
        ("CRON_TZ=Europe/Berlin 0 9 * * *", "0 9 * * *"),
        ("@every 5m", "every 5 minutes"),
        ("@every 1h30m", "every 90 minutes"),
        ("20261224", "2026-12-24"),
        ("2026/12/24 18:00", "2026-12-24 18:00"),
        ("24.12.26 18:00", "2026-12-24 18:00"),
        ("24th of December at 6pm", "2026-12-24 18:00"),
        ("Thursday, December 24, 2026 at 6:00 PM", "2026-12-24 18:00"),
        ("2026-12-24T18:00:00+01:00[Europe/Berlin]", "2026-12-24 18:00"),
        ("2026-12-24 17:00:00 UTC", "2026-12-24 18:00"),
        ("2026-12-24 12:00 America/New_York", "2026-12-24 18:00"),
        ("1798131600", "2026-12-24 18:00"),
        ("1798131600000", "2026-12-24 18:00"),
        ("tomorrow at 18:00:00", "2026-11-27 18:00"),
        ("tomorrow @ 9am", "2026-11-27 9:00"),
        ("10 minutes", "2026-11-26 10:10"),
        ("+10m", "2026-11-26 10:10"),
        ("in 1.5 hours", "2026-11-26 11:30"),
        ("in 2h30m", "2026-11-26 12:30"),
        ("in forty-five minutes", "2026-11-26 10:45"),
        ("in zwanzig Minuten", "2026-11-26 10:20"),
        ("every monday", "0 9 * * 1"),
        ("every evening", "0 19 * * *"),
        ("Mon\u2013Fri 9am", "0 9 * * 1-5"),
        ("every other day", "every 2 days"),
        ("every day at 8am and 8pm", "0 8,20 * * *"),
        ("daily at 8:00, 12:00 and 18:00", "0 8,12,18 * * *"),
    ],
)
def test_a_rule_in_another_common_spelling_means_the_same(rule: str, same: str) -> None:
    found, meant = parse_rule(rule, ZONE, NOW), parse_rule(same, ZONE, NOW)
    assert [*list_runs(found, NOW, 12)] == [*list_runs(meant, NOW, 12)] != []


@pytest.mark.parametrize(
    ("rule", "days"),
    [
        ("0 9 L * *", ["11-30", "12-31", "01-31", "02-28"]),
        ("0 9 * * 5L", ["11-27", "12-25", "01-29", "02-26"]),
        ("0 9 * * MON#2", ["12-14", "01-11", "02-08", "03-08"]),
        ("0 9 * * 1#1,1#3", ["12-07", "12-21", "01-04", "01-18"]),
    ],
)
def test_a_cron_rule_may_name_a_weekday_or_the_last_day_of_a_month(
    rule: str, days: list[str]
) -> None:
    found = list_runs(parse_rule(rule, ZONE, NOW), NOW, 4)
    assert [f"{at:%m-%d}" for at in found] == days


@pytest.mark.parametrize(
    ("rule", "meant"),
    [("0 9 * * ? *", "0 9 * * *"), ("0 9 1 * ? *", "0 9 1 * *"), ("0 0 9 ? * MON-FRI", "0 9 * * mon-fri")],
)
def test_six_fields_with_a_day_left_open_are_told_apart(rule: str, meant: str) -> None:
    """Some have a year at the end, others seconds at the beginning."""
    assert parse_rule(rule, ZONE, NOW).text == meant


AGAIN = {
    "every 2 days at 9:00 from 2026-11-27": (
        *("every 2 days at 9", "every other day at 9am", "alle 2 Tage um 9 Uhr"),
        *("tous les deux jours à 9h", "cada dos días a las 9"),
    ),
    "every 14 days at 9:00 from 2026-11-30": (
        *("every other monday at 9", "every two weeks on monday", "jeden zweiten Montag um 9 Uhr"),
        "every second monday at 9",
    ),
    "0 9 * * 1#1": (
        *("the first monday of the month at 9", "every first monday of the month"),
        *("jeden ersten Montag im Monat um 9 Uhr", "le premier lundi du mois à 9h"),
        *("el primer lunes del mes a las 9", "1st monday of every month"),
    ),
    "0 18 l * *": (
        *("last day of the month at 18:00", "am letzten Tag des Monats um 18 Uhr"),
        *("le dernier jour du mois à 18h", "el último día del mes a las 18:00"),
    ),
    "0 9 * * 5l": ("last friday of the month", "letzter Freitag im Monat"),
    "0 9 1,15 * *": ("on the 1st and 15th at 9", "on the 1st, 15th of the month at 9am", "the 1st and the 15th"),
    "0 9 1 * *": ("first of the month at 9", "first day of the month"),
    "0 9 1 */3 *": ("every 3 months", "every quarter", "alle 3 Monate"),
    "30 7 * * 1,3,5": (
        *("mon, wed, fri at 7:30", "montag, mittwoch und freitag um 7:30"),
        "lundi, mercredi et vendredi à 7h30",
    ),
}


@pytest.mark.parametrize(
    ("phrase", "meant"), [(one, meant) for meant, phrases in AGAIN.items() for one in phrases]
)
def test_what_comes_again_is_read_in_the_words_of_calendars(phrase: str, meant: str) -> None:
    assert read(phrase) == read(meant)


def test_every_other_day_keeps_its_hour_and_its_days_where_clocks_change() -> None:
    rule = parse_rule("every 2 days at 9:00 from 2026-03-26", ZONE, NOW)
    before = datetime(2026, 3, 25, tzinfo=ZoneInfo(ZONE))
    found = [at.astimezone(ZoneInfo(ZONE)) for at in list_runs(rule, before, 4)]
    assert [f"{at:%m-%d %H:%M %z}" for at in found] == [
        *("03-26 09:00 +0100", "03-28 09:00 +0100", "03-30 09:00 +0200", "04-01 09:00 +0200")
    ]
    due = rule.next_due(found[1])
    assert due and due.at == found[2] and due.key == "2026-03-30T09:00"
    assert next(list_runs(rule, datetime(2036, 3, 25, tzinfo=ZoneInfo(ZONE)), 1)).day == 25


@pytest.mark.parametrize(
    "rule", ["every 2 days at 24:00 from 2026-03-26", "every 2 days at 9:00 from 2026-02-30"]
)
def test_a_day_or_hour_that_is_none_is_told(rule: str) -> None:
    with pytest.raises(BadRule, match="every 2 days at"):
        parse_rule(rule, ZONE, NOW)


def test_in_the_config_every_other_day_needs_the_day_that_it_begins_on() -> None:
    task = {"name": "water", "prompt": "Water the plants.", "schedule": "every 2 days at 9"}
    with pytest.raises(ValueError, match=r"begins on no date; write \"every 2 days at 09:00 from"):
        ScheduleTask.model_validate(task)
    ScheduleTask.model_validate(task | {"schedule": "every 2 days at 9:00 from 2026-11-27"})


@pytest.mark.parametrize("said", ["9h30", "14h30", "18h00"])
def test_a_french_time_alone_is_a_time_of_day(said: str) -> None:
    assert f"T{said.replace('h', ':'):0>5}" in parse_rule(said, ZONE, NOW).text


@pytest.mark.parametrize(
    "rule",
    [
        *("0 0 9 ? * 2", "30 0 9 * * *", "Friday 24 December 2026", "21h30m and more"),
        *("0 9 * * * *", "0 0 9 * * *", "0 9 * * 1-5 *", "every day at 8 15", "jeden tag um 8 20"),
        *("2nd tuesday at 9:00", "the 5th friday", "15 horas", "2026122418"),
    ],
)
def test_a_rule_that_may_mean_something_else_is_not_guessed(rule: str) -> None:
    with pytest.raises(BadRule):
        parse_rule(rule, ZONE, NOW)


@pytest.mark.parametrize(
    ("phrase", "rule"),
    [
        ("weekly", "0 9 * * 4"),  # on the day on which it is said, a Thursday
        ("every week at 8", "0 8 * * 4"),
        ("monthly", "0 9 26 * *"),
        ("every month at 5pm", "0 17 26 * *"),
        ("yearly", "0 9 26 11 *"),
        ("mornings", "0 9 * * *"),
        ("evenings at 8", "0 20 * * *"),
        ("tuesday mornings", "0 9 * * 2"),
        ("mornings on weekdays", "0 9 * * 1-5"),
        ("morgens um 8", "0 8 * * *"),
        ("nachts um 3", "0 3 * * *"),
        ("tonight at 3", "2026-11-27T03:00"),
        ("tomorrow night at 2", "2026-11-28T02:00"),
        ("heute abends um 8", "2026-11-26T20:00"),
        ("every hour from 9 to 17", "0 9-17 * * *"),
        ("every hour from 9 to 5", "0 9-17 * * *"),
        ("every hour between 9am and 5pm on weekdays", "0 9-17 * * 1-5"),
        ("every 15 minutes between 9 and 17", "*/15 9-16 * * *"),
        ("every 2 hours from 8 to 18", "0 8-18/2 * * *"),
        ("every hour from 22 to 6", "0 22-23,0-6 * * *"),
        ("hourly on weekdays", "0 * * * 1-5"),
        ("every 2 hours on monday", "0 */2 * * 1"),
        ("alle 15 Minuten zwischen 9 und 17 Uhr", "*/15 9-16 * * *"),
        ("toutes les heures de 9h à 17h", "0 9-17 * * *"),
        ("cada 30 minutos entre las 9 y las 17", "*/30 9-16 * * *"),
        ("from monday to friday at 8", "0 8 * * 1-5"),
        ("every 90 minutes from 9 to 17", "?"),  # no hour has it at the same minutes
        ("every 30 minutes from 8:30 to 17:30", "?"),
        ("from 9 to 17", "?"),
    ],
)
def test_what_comes_again_without_a_day_or_within_hours_is_read(phrase: str, rule: str) -> None:
    assert read(phrase) == rule
