"""Every row of what was asked for has a test that names it."""

from tests.rows import HERE, ROWS, Shown, rows_in, rows_in_name, shown_in, table


def test_every_row_in_scope_has_a_test():
    found = table(one for path in sorted(HERE.rglob("test_*.py")) for one in shown_in(path))
    assert [row for row in ROWS if not found[row]] == []


def test_rows_are_read_from_names_docstrings_and_spans():
    assert rows_in_name("test_a17_b2_an_agent") == {"A17", "B2"}
    assert rows_in_name("test_A14_a_file_is_sent") == {"A14"}
    assert rows_in("the gap (A7, D1-D3), B5") == {"A7", "D1", "D2", "D3", "B5"}
    assert rows_in("CA7 7A11") == frozenset()


def test_an_entry_of_the_table_of_failures_is_no_row():
    assert rows_in("the gap (A7, K25)") == {"A7"}
    assert rows_in_name("test_b5_25_a14_a_background_agent") == {"A14"}


def test_a_row_without_a_test_is_missed():
    assert table([Shown("t", frozenset({"A1"}), frozenset({"A2"}))])["A2"] == ["t (by its file)"]
    assert table([Shown("t", frozenset({"A1"}), frozenset())])["A2"] == []
