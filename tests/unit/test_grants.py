"""Standing permissions: exact, bounded, and for places only where places are all that counts (trust.md Approvals)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.rows import GrantRow
from daemon.core.trust import Effect
from daemon.tools.base import ToolMeta
from daemon.tools.policy.grants import (
    GrantRequest,
    grantable_paths,
    is_active,
    matches_pattern,
    matching_grants,
    pattern_error,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=30)
EXACT = GrantRow("g1", "", "write_file", "hash", "{}", "owner", NOW, expires=LATER)
PLACES = replace(EXACT, id="g2", args_hash="", arguments="", paths="reports/*")


def covers(grant: GrantRow, wanted: GrantRequest, now: datetime) -> bool:
    return matching_grants([grant], wanted, now) == [grant]


names = st.text("ab.*?[]/~\\ é", max_size=12)
part = st.text("abc.-_ é", min_size=1, max_size=6).filter(lambda name: name.strip(".") != "")


def test_an_exact_permission_is_for_exactly_this_call() -> None:
    assert covers(EXACT, GrantRequest("write_file", "hash"), NOW)
    assert not covers(EXACT, GrantRequest("write_file", "other"), NOW) and not covers(
        EXACT, GrantRequest("edit_file", "hash"), NOW
    )


@given(left=st.none() | st.integers(-1, 3), ends=st.none() | st.integers(-60, 60))
def test_nothing_stands_that_has_no_bound_or_has_come_to_it(
    left: int | None, ends: int | None
) -> None:
    expires = None if ends is None else NOW + timedelta(minutes=ends)
    grant = replace(EXACT, uses_left=left, expires=expires)
    bounded = left is not None or ends is not None
    assert is_active(grant, NOW) == (
        bounded and (left is None or left > 0) and (ends is None or ends > 0)
    )
    assert covers(grant, GrantRequest("write_file", "hash"), NOW) == is_active(grant, NOW)


def test_a_permission_for_places_is_for_calls_that_go_there_and_nowhere_else() -> None:
    assert covers(PLACES, GrantRequest("write_file", "any", ("reports/may.md",)), NOW)
    for paths in (
        (),
        ("reports",),
        ("notes.md",),
        ("reports/may.md", "notes.md"),
        ("reports/../notes.md",),
        ("reports/a/b",),
    ):
        assert not covers(PLACES, GrantRequest("write_file", "any", paths), NOW), paths


def test_a_permission_for_places_never_counts_for_a_session_from_outside() -> None:
    wanted = GrantRequest("write_file", "any", ("reports/may.md",), untrusted=True)
    assert not covers(PLACES, wanted, NOW)
    assert covers(EXACT, replace(wanted, args_hash="hash"), NOW)


@pytest.mark.parametrize(
    ("path", "pattern", "matches"),
    [
        ("reports/may.md", "reports/*", True),
        ("./reports//may.md", "reports/*", True),
        ("reports/2026/may.md", "reports/*", False),
        ("reports/2026/may.md", "reports/**", True),
        ("reports/a/b/c.md", "reports/**/*.md", True),
        ("reports/c.md", "reports/**/*.md", True),
        ("a/x/b/x/c", "a/**/x/c", True),
        ("may.md", "*.md", True),
        ("Reports/may.md", "reports/*", False),
        ("/etc/passwd", "**", False),
        ("/reports/may.md", "reports/*", False),
        ("~/x", "*/x", False),
        ("reports\\may.md", "*", False),
        ("reports/..", "reports/*", False),
        ("", "**", False),
    ],
)
def test_a_pattern_of_places_means_what_it_says(path: str, pattern: str, matches: bool) -> None:
    assert matches_pattern(path, pattern) is matches


@given(path=names, pattern=names)
def test_nothing_that_leads_out_is_ever_within(path: str, pattern: str) -> None:
    leads_out = path.startswith(("/", "~")) or ".." in path.split("/") or "\\" in path
    assert not (leads_out and matches_pattern(path, pattern))


@given(parts=st.lists(part, min_size=1, max_size=5), more=st.lists(part, max_size=3))
def test_a_folder_with_two_stars_holds_all_that_is_in_it(parts: list[str], more: list[str]) -> None:
    folder = "/".join(parts).replace("[", "")
    inside = "/".join((folder, *more))
    assert matches_pattern(inside, f"{folder}/**")
    assert not matches_pattern(f"elsewhere/{inside}", f"{folder}/**") or folder.startswith(
        "elsewhere"
    )


def test_a_pattern_that_means_everything_or_something_else_is_refused_with_why() -> None:
    for pattern in ("*", "**", "**/*", "?/*", "../x", "/etc/*", "", "."):
        assert pattern_error(pattern, ["reports/may.md"]), pattern
    assert "does not match" in pattern_error("notes/*", ["reports/may.md"])
    assert "more than a path" in pattern_error("reports/*", [])
    assert pattern_error("reports/*", ["reports/may.md"]) == ""


def test_a_call_is_about_places_alone_only_where_its_definition_says_so() -> None:
    meta = ToolMeta(Effect.WRITE, paths=("path",), critical=("path",))
    assert grantable_paths(meta, {"path": "a/b", "text": "x"}) == ("a/b",)
    assert grantable_paths(meta, {"text": "x"}) == () == grantable_paths(meta, {"path": 3})
    for other in (
        replace(meta, critical=None),
        replace(meta, critical=("path", "owner")),
        replace(meta, paths=()),
    ):
        assert grantable_paths(other, {"path": "a/b"}) == ()


def test_a_counted_permission_is_used_only_where_no_other_covers_the_call() -> None:
    counted, soon = (
        replace(EXACT, id="g3", uses_left=2),
        replace(EXACT, id="g4", expires=NOW + timedelta(minutes=1)),
    )
    wanted = GrantRequest("write_file", "hash", ("reports/may.md",))
    assert [grant.id for grant in matching_grants([counted, PLACES, EXACT, soon], wanted, NOW)] == [
        "g4",
        "g1",
        "g2",
        "g3",
    ]
