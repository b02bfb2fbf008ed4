"""Small things that rooms of the house keep in the journal."""

import pytest

from daemon.core.journal import Store


async def test_F3_what_is_kept_is_found_by_kind_and_name_and_replaced(store: Store) -> None:
    await store.write(lambda tx: [tx.keep("file", name, f"about {name}") for name in ("b", "a")])
    await store.write(lambda tx: tx.keep("file", "b", "anew"))
    await store.write(lambda tx: tx.keep("rule", "a", "another kind"))
    assert await store.read(lambda tx: tx.all_kept("file")) == {"a": "about a", "b": "anew"}
    assert await store.read(lambda tx: (tx.kept("rule", "a"), tx.kept("rule", "b"))) == (
        "another kind",
        None,
    )


async def test_what_is_dropped_is_gone_once(store: Store) -> None:
    await store.write(lambda tx: tx.keep("file", "a", "x"))
    assert [await store.write(lambda tx: tx.drop("file", "a")) for _ in range(2)] == [True, False]
    assert await store.read(lambda tx: tx.all_kept("file")) == {}


async def test_a_work_that_fails_keeps_and_drops_nothing(store: Store) -> None:
    await store.write(lambda tx: tx.keep("file", "a", "x"))
    with pytest.raises(LookupError):
        await store.write(lambda tx: [tx.drop("file", "a"), tx.keep("file", "b", "y"), {}["z"]])
    assert await store.read(lambda tx: tx.all_kept("file")) == {"a": "x"}
