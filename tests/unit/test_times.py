"""Times in ordinary words: 213 phrases in English, 60 each in German, French and Spanish, written down before the first run."""

from collections import Counter
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from daemon.triggers.recurrence import BadRule, parse_rule

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
    "phrase", ["soon", "every other friday at 5pm", "tomorrow at 9 or 10", "on february 30"]
)
def test_what_cannot_be_read_is_answered_with_examples_and_without_cron(phrase: str) -> None:
    with pytest.raises(BadRule, match="tomorrow at 9:00") as refused:
        parse_rule(phrase, ZONE, NOW)
    assert "cron" not in str(refused.value) and "fields" not in str(refused.value)


def test_a_long_or_hostile_phrase_takes_no_time() -> None:
    for phrase in ("every " * 30, "1 " * 90, "and monday " * 15, "a " * 99, "at at at " * 20):
        assert read(phrase) == "?"
