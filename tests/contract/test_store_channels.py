"""What chat platforms need of every journal: who wrote a message, what came with it, which chats there are (A13, A14)."""

from dataclasses import replace

from daemon.store.journal import Store
from tests.contract.journal import HOME, add, after, asked, begin, begun, message, said, session

TOKEN = "0123456789abcdef" * 4


async def test_a_message_keeps_its_senders_role_its_files_and_the_platforms_id(
    store: Store,
) -> None:
    row = replace(message("m1"), role="editor", attachments='[{"name":"ä"}]', message_id="1712.5")
    assert await store.write(lambda tx: tx.accept_input(row)) == row
    assert await store.read(lambda tx: (tx.get_input("m1"), tx.list_waiting_inputs(HOME))) == (
        row,
        [row],
    )
    assert await store.write(lambda tx: tx.accept_input(replace(row, id="m2", role="owner"))) == row


async def test_messages_are_found_by_their_state_in_order_of_acceptance(store: Store) -> None:
    rows = [
        replace(message("m1", state="held"), received_at=after(9)),
        message("m2"),
        message("m3", session="s", state="held"),
    ]
    await store.write(lambda tx: [tx.accept_input(row) for row in rows])
    assert await store.read(lambda tx: (tx.list_inputs("held"), tx.list_inputs("new"))) == (
        [rows[0], rows[2]],
        [rows[1]],
    )
    await store.write(lambda tx: tx.set_input_state("m1", "new"))
    assert await store.read(lambda tx: [row.id for row in tx.list_inputs("new")]) == ["m1", "m2"]


async def test_conversations_of_a_channel_come_with_the_latest_message_first(store: Store) -> None:
    """A13: those that work for another have no chat of their own, and are not among them."""
    names = ["a", "b", "c", "d"]
    rows = [session(name, "slack") for name in names]
    others = [session("t", "telegram"), replace(session("sub-1-x", "slack"), root="a")]
    await store.write(lambda tx: [tx.put_session(row) for row in (*rows, *others)])
    said_where = ["a", "c", "t", "sub-1-x", "b", "c"]
    await store.write(
        lambda tx: [begin(tx, f"t{n}", where=where) for n, where in enumerate(said_where)]
    )
    assert await store.read(
        lambda tx: [row.id for row in tx.list_channel_sessions("slack", 9)]
    ) == ["c", "b", "a", "d"]
    assert await store.read(lambda tx: tx.list_channel_sessions("slack", 2)) == [rows[2], rows[1]]
    assert await store.read(lambda tx: tx.list_channel_sessions("discord", 9)) == []


async def test_a_question_is_found_by_enough_of_its_tokens_hash_and_by_nothing_shorter(
    store: Store,
) -> None:
    """A15: a button carries so much that nobody hits a question by chance."""
    other = TOKEN[:-1] + "0"
    await begun(
        store,
        said(),
        replace(asked("2.0"), token_hash=TOKEN),
        replace(asked("2.1"), token_hash="f" * 64),
    )
    found = await store.read(lambda tx: tx.find_approval(TOKEN[:32]))
    assert found is not None and (found.call_id, found.token_hash) == ("2.0", TOKEN)
    for prefix in (TOKEN, TOKEN[:40]):
        assert await store.read(lambda tx, prefix=prefix: tx.find_approval(prefix)) == found
    for prefix in (
        "",
        TOKEN[:31],
        other,
        "e" * 32,
        TOKEN + "0",
        "%" * 32,
        TOKEN[:31] + "g",
        TOKEN[:31].upper() + "A",
    ):
        assert await store.read(lambda tx, prefix=prefix: tx.find_approval(prefix)) is None


async def test_the_latest_of_questions_with_one_hash_is_meant(store: Store) -> None:
    epoch = await begun(store, said(), replace(asked("2.0"), token_hash=TOKEN))
    await add(store, epoch, replace(asked("2.1"), token_hash=TOKEN), first=3)
    found = await store.read(lambda tx: tx.find_approval(TOKEN[:32]))
    assert found is not None and found.call_id == "2.1"
