"""Day of the month and weekday of a cron expression: either is enough, unless one begins with "*"."""

from datetime import UTC, datetime

import pytest

from daemon.triggers.recurrence import list_runs, parse_rule

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 9 1-7 * mon", [1, 2, 3, 4, 5, 6, 7, 13]),
        ("0 9 1-7 * */7", [5, 3, 7, 5]),
        ("0 9 */2 * mon", [13, 27, 11, 25]),
        ("0 9 * * mon", [6, 13, 20, 27]),
        ("0 9 10 * *", [10, 10, 10]),
        ("0 9 * * */2", [2, 4, 5, 7, 9, 11, 12]),
        ("0 9 */10 * *", [1, 11, 21, 1, 11]),
    ],
)
def test_a_field_that_begins_with_a_star_limits_the_other(text: str, days: list[int]):
    rule = parse_rule(text, "UTC", NOW)
    assert [at.day for at in list_runs(rule, NOW, len(days))] == days
