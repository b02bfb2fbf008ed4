"""The threads in which the assistant takes part: whom they are kept for, and what is known of them after a restart (A13, A14)."""

from channels.message import Address
from channels.slack.events import ThreadMembership
from tests.channels.host import Ledger
from tests.channels.slack_stage import Stage, fake, stage
from tests.fakes.platform import Fault
from tests.fakes.slack import FakeSlack
from tests.fakes.slack.workspace import BOT


def at(thread: int) -> Address:
    return Address("slack", "C1", f"{thread}.000001")


def test_A13_strangers_push_out_no_thread_of_the_assistants_or_of_a_members():
    threads = ThreadMembership(["U1"], limit=3)
    threads.join(at(1), "U1")
    threads.join(at(2), "U9")
    threads.join(at(2))
    for number in range(3, 13):
        threads.join(at(number), "U9")
    known = [number for number in range(1, 13) if threads.is_joined("C1", at(number).thread)]
    assert known == [1, 2, 10, 11, 12]
    assert [threads.last_author(at(number)) for number in (1, 2, 3, 12)] == ["U1", "U9", "", "U9"]
    assert [thread for _, thread in threads.latest(3, ["C1"])] == [
        at(number).thread for number in (2, 1, 12)
    ]


def test_A13_of_its_own_threads_the_oldest_are_forgotten():
    threads = ThreadMembership(["U1"], limit=3)
    for number in range(1, 5):
        threads.join(at(number), "U1")
    threads.join(at(2))
    threads.join(at(5), "U1")
    assert [number for number in range(1, 6) if threads.is_joined("C1", at(number).thread)] == [
        2,
        4,
        5,
    ]


async def said(on: Stage, person: str, chat: str, text: str, thread: str = "") -> bool:
    """Whether it is for the assistant."""
    before = len(on.house.messages)
    on.slack.say(person, chat, text, thread=thread)
    await on.house.until(lambda: len(on.house.messages) > before)
    return on.house.messages[-1].addressed


def looks(slack: FakeSlack, thread: str) -> int:
    return sum(asked["ts"] == thread for asked in slack.calls.of("conversations.replies"))


async def test_A14_a_thread_that_nobody_remembers_is_looked_at_when_a_member_writes_there():
    async with fake() as slack:
        chat = slack.group("ann", "bob", "eve")
        mentioned = slack.say("ann", chat, slack.mention("help us"))
        answered = slack.say("ann", chat, "who is there?")
        slack.work.post(slack.work.channel(chat), BOT, text="I am", thread_ts=answered)
        own = slack.work.post(slack.work.channel(chat), BOT, text="good morning")["ts"]
        async with stage(slack) as on:
            for thread in (mentioned, answered, own):
                assert await said(on, "bob", chat, "and now?", thread)
                assert await said(on, "eve", chat, "me too", thread)
                assert looks(slack, thread) == 1
                assert on.house.messages[-1].address == Address("slack", chat, thread)


async def test_A14_a_thread_of_others_is_looked_at_once():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann", "bob")
        thread = slack.say("ann", chat, "lunch?")
        for _ in range(3):
            assert not await said(on, "bob", chat, "pizza!", thread)
        assert looks(slack, thread) == 1
        assert await said(on, "bob", chat, slack.mention("what do you think?"), thread)
        assert await said(on, "ann", chat, "and you?", thread)
        assert looks(slack, thread) == 1


async def test_A14_strangers_cause_no_calls():
    async with fake() as slack:
        chat = slack.group("ann", "eve")
        thread = slack.say("ann", chat, slack.mention("help us"))
        async with stage(slack) as on:
            assert not await said(on, "eve", chat, "me too", thread)
            assert not await said(on, "eve", chat, "and me", slack.say("eve", chat, "hm"))
            assert not slack.calls.of("conversations.replies")


async def test_A14_no_more_threads_are_looked_at_than_slack_allows():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann", "bob")
        for _ in range(25):
            assert not await said(on, "bob", chat, "hm", slack.say("ann", chat, "so"))
        assert len(slack.calls.of("conversations.replies")) == 20


async def test_A14_without_the_scope_nothing_is_asked_for_twice_and_messages_come_as_before():
    async with fake() as slack, stage(slack) as on:
        slack.methods.bare_history = True
        chat = slack.group("ann", "bob")
        for _ in range(3):
            assert not await said(on, "bob", chat, "hm", slack.say("ann", chat, "so"))
        assert len(slack.calls.of("conversations.replies")) == 1
        assert not on.house.ailments


async def test_A14_a_slack_that_does_not_answer_holds_up_no_message():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann", "bob")
        slack.fail("conversations.replies", Fault("slow", seconds=20.0))
        for _ in range(3):
            assert not await said(on, "bob", chat, "hm", slack.say("ann", chat, "so"))
        assert len(slack.calls.of("conversations.replies")) == 1


async def test_B5_13_what_could_not_be_written_down_is_for_the_assistant_when_it_comes_again():
    async with fake(ack_s=0.2) as slack:
        chat = slack.group("ann", "bob")
        thread = slack.say("ann", chat, slack.mention("help us"))
        house = Ledger()
        async with stage(slack, house) as on:
            house.refuse()
            assert await said(on, "bob", chat, "and now?", thread)
            assert len(house.offers) > 1
