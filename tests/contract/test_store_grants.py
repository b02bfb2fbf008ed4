"""Standing permissions are used up one by one, whichever journal keeps them (trust.md Approvals)."""

import asyncio
from dataclasses import replace

from daemon.store.journal import Store
from tests.contract.journal import HOME, NOW, after, begin, grant, recorded
from tests.contract.journal import asked as asked_about


async def test_the_bounds_of_a_permission_are_kept(store: Store) -> None:
    row = replace(grant("g1"), uses_left=3, expires=after(60), paths="reports/*", uses=1)
    await store.write(lambda tx: tx.add_grant(row))
    assert await store.read(lambda tx: tx.list_grants(HOME)) == [row]


async def test_of_two_calls_at_the_same_time_one_has_the_last_use(store: Store) -> None:
    await store.write(lambda tx: tx.add_grant(replace(grant("g1"), uses_left=1)))
    used = await asyncio.gather(
        *(store.write(lambda tx, n=n: tx.use_grant("g1", f"t1/3.{n}", NOW)) for n in range(8))
    )
    assert sorted(used) == [False] * 7 + [True]
    [row] = await store.read(lambda tx: tx.list_grants(HOME))
    assert (row.uses_left, row.uses) == (0, 1)


async def test_a_call_uses_a_permission_once_however_often_it_is_judged(store: Store) -> None:
    """K7: killed between the use and the call, it is judged again."""
    await store.write(lambda tx: tx.add_grant(replace(grant("g1"), uses_left=5)))
    assert await store.write(
        lambda tx: (tx.use_grant("g1", "t1/3.0", NOW), tx.use_grant("g1", "t1/3.0", NOW))
    ) == (True, False)
    assert await store.read(
        lambda tx: (tx.is_grant_used("t1/3.0"), tx.is_grant_used("t1/3.1"))
    ) == (True, False)
    [row] = await store.read(lambda tx: tx.list_grants(HOME))
    assert row.uses_left == 4


async def test_a_permission_that_has_lapsed_or_is_gone_is_not_used(store: Store) -> None:
    await store.write(lambda tx: tx.add_grant(replace(grant("g1"), expires=after(60))))
    assert not await store.write(lambda tx: tx.use_grant("g1", "t1/3.0", after(60)))
    assert await store.write(lambda tx: tx.use_grant("g1", "t1/3.0", after(59)))
    await store.write(lambda tx: tx.revoke_grant("g1"))
    assert await store.read(lambda tx: tx.is_grant_used("t1/3.0")) is False
    assert not await store.write(lambda tx: tx.use_grant("g1", "t1/3.0", NOW))


async def test_what_is_shown_beside_the_arguments_is_kept_with_the_question(store: Store) -> None:
    question = replace(asked_about("2.0"), preview="- old\n+ new", paths=("a/b", "c"))
    await store.write(lambda tx: tx.append_events(HOME, begin(tx), "t1", recorded(question)))
    [row] = await store.read(lambda tx: tx.list_approvals("pending", HOME))
    assert (row.preview, row.paths) == ("- old\n+ new", ("a/b", "c"))
