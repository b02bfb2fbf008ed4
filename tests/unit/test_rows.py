"""Each clause of each required row has a test through the whole daemon, or comes later for a reason."""

from tests.rows import Rows, Table, list_tests, read_rows

TEXTS = {"A1": "a message is kept; its sender is known", "B2": "an end that is declared"}
TESTS = frozenset({"e2e/test_x.py::test_kept", "unit/test_y.py::test_known"})
WHOLE: Table = {
    "A1": {"a message is kept": ["e2e/test_x.py::test_kept"], "its sender is known": "with people"},
    "B2": {"an end that is declared": ["e2e/test_x.py::test_kept"]},
}


def rows(**clauses: dict[str, list[str] | str]) -> Rows:
    return Rows(TEXTS, {**WHOLE, **clauses}, TESTS)


def test_each_clause_of_each_row_has_a_test_or_a_reason_why_it_comes_later():
    found = read_rows()
    assert found.faults == []
    assert [row for row in found.texts if row not in found.table or found.missing(row)] == []


def test_a_row_is_done_when_each_of_its_clauses_has_a_test():
    found = rows()
    assert (found.is_done("A1"), found.is_done("B2"), found.faults) == (False, True, [])
    assert found.later("A1") == ["its sender is known"]
    assert rows(B2={"an end that is declared": []}).missing("B2") == ["an end that is declared"]


def test_words_of_a_row_that_no_clause_has_are_a_fault_and_so_are_words_that_are_not_the_rows():
    assert rows(B2={"an end": ["e2e/test_x.py::test_kept"]}).faults == [
        "B2: in no clause: that declared"
    ]
    assert rows(B2={"an end that is declared": "l", "in time": "l"}).faults == [
        "B2: no words of the row: in time"
    ]


def test_a_test_that_is_none_or_does_not_run_the_daemon_is_a_fault():
    bad = ["e2e/test_x.py::test_gone", "unit/test_y.py::test_known"]
    assert rows(B2={"an end that is declared": bad}).faults == [
        "B2: there is no test e2e/test_x.py::test_gone",
        "B2: not through the whole daemon: unit/test_y.py::test_known",
    ]


def test_a_row_that_is_not_required_is_a_fault():
    assert rows(Z1={}).faults == ["Z1: there is no such row"]


def test_the_tests_of_a_file_are_found_by_name():
    from tests.rows import HERE

    assert "unit/test_rows.py::test_the_tests_of_a_file_are_found_by_name" in set(
        list_tests(HERE / "unit" / "test_rows.py")
    )
