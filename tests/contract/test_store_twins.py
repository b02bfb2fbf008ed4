"""Work in groups with work that fails, in any order, leaves what the same work leaves alone."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from daemon.core.errors import AidaemonError
from daemon.core.events import (
    Alarm,
    Answer,
    BudgetRaised,
    ChildReturned,
    ChildSpawned,
    Consulted,
    Event,
    IterationRefunded,
    Limits,
    Stop,
    Suspended,
    TurnResumed,
)
from daemon.core.messages import Usage
from daemon.core.rows import LoopRow, LoopStage
from daemon.core.trust import Label
from daemon.store.journal import Tx
from daemon.store.sqlite import SqliteStore
from tests.contract.journal import (
    NOW,
    after,
    answered,
    asked,
    ended,
    finished,
    grant,
    message,
    notice,
    recorded,
    replied,
    said,
    session,
    spawned,
    steered,
    turn,
)

WHERE = ("terminal:home", "web:b", "sub-1")
CHANNELS = dict(zip(WHERE, ("telegram", "web", ""), strict=True))
ROLES = ("owner", "editor")
STATES = ("new", "sending", "sent", "uncertain", "failed")

AGENTS = ("default", "digger")
BORN = ("sub-2", "sub-3")

wheres = st.sampled_from(WHERE)
numbers = st.integers(1, 3)
seconds = st.sampled_from([0, 30, 60])
rarely = st.sampled_from([False] * 7 + [True])
labels = st.sampled_from(Label)
turns = st.sampled_from(["t1", "t2", "t3", "t7"])


@st.composite
def spawns(draw: st.DrawFn) -> ChildSpawned:
    """A turn that the other rules begin and end, or one that nobody does; in a session that there is, or a new one."""
    key = draw(st.sampled_from(["2.0", "step"]))
    where = draw(st.sampled_from([*WHERE, *BORN]))
    return spawned(
        draw(turns),
        key=key,
        where=where,
        report=draw(st.sampled_from(["", "t2", "t8"])),
        label=draw(labels),
    )


event_kinds: st.SearchStrategy[Event] = st.one_of(
    st.builds(said, numbers.map("m{}".format), labels),
    st.builds(steered, numbers.map("m{}".format), labels),
    st.builds(
        replied,
        calls=st.integers(0, 2),
        usd=st.sampled_from([0.25, 0.5, None]),
        model=st.sampled_from(["m", "n"]),
    ),
    st.builds(finished, labels),
    st.builds(asked, st.sampled_from(["2.0", "2.1"]), seconds.map(after)),
    st.builds(answered, st.sampled_from(Answer), st.sampled_from(["2.0", "2.1"])),
    st.sampled_from([Suspended(("2.0",)), TurnResumed("why")]),
    spawns(),
    st.sampled_from([IterationRefunded(("2.0",)), Alarm("budget", "look")]),
    st.builds(
        BudgetRaised,
        st.just("budget.1"),
        st.just(Limits()),
        st.integers(0, 2),
        st.sampled_from([0.0, 0.25]),
    ),
    st.builds(ChildReturned, st.just("step"), turns, st.just("done"), st.just("gold"), labels),
    st.builds(
        Consulted,
        st.just("summary"),
        st.just(""),
        st.just(Usage(7, 3, 2, 0.5)),
        st.sampled_from(["", "prov"]),
        st.just("n"),
    ),
    st.builds(ended, st.sampled_from(["", "bye"]), st.sampled_from(Stop)),
)


class Twins(RuleBasedStateMachine):
    """Each rule is one work on both journals: the same result or the same error, and the same answers afterwards.

    In one of them each commit holds two more that fail at their end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory()
        self.alone, self.grouped = (self.runner.run(self.open(name)) for name in ("a", "g"))

    async def open(self, name: str) -> SqliteStore:
        return await SqliteStore.open(Path(self.folder.name) / f"{name}.db")

    def teardown(self) -> None:
        self.runner.run(self.alone.aclose())
        self.runner.run(self.grouped.aclose())
        self.runner.close()
        self.folder.cleanup()

    def both(self, work: Callable[[Tx], object]) -> None:
        def fail(tx: Tx) -> None:
            work(tx)
            raise AidaemonError("after all of it")

        [alone] = self.runner.run(self.outcomes(self.alone, work))
        _, grouped, _ = self.runner.run(self.outcomes(self.grouped, fail, work, fail))
        assert alone == grouped
        assert self.runner.run(self.alone.read(everything)) == self.runner.run(
            self.grouped.read(everything)
        )

    async def outcomes(self, store: SqliteStore, *works: Callable[[Tx], object]) -> list[object]:
        """What each returned, or the type of what it raised."""
        found = await asyncio.gather(*map(store.write, works), return_exceptions=True)
        return [type(one) if isinstance(one, AidaemonError) else one for one in found]

    @initialize()
    def sessions(self) -> None:
        self.both(lambda tx: [tx.put_session(session(where, CHANNELS[where])) for where in WHERE])
        for number in (1, 2):
            self.accept(number, home_of(number), "", number)
            self.begin(number, home_of(number), False, 0)

    @rule(number=numbers, where=wheres, steers=st.sampled_from(["", "t1", "t2"]), external=numbers)
    def accept(self, number: int, where: str, steers: str, external: int) -> None:
        said = message(f"m{number}", session=where, steers=steers, turn=f"t{external}")
        self.both(
            lambda tx: tx.accept_input(
                replace(said, role=ROLES[number % 2], attachments="[]", message_id=f"p{number}")
            )
        )

    @rule(number=numbers, state=st.sampled_from(["new", "command", "answered:t1"]))
    def settle(self, number: int, state: str) -> None:
        self.both(lambda tx: tx.set_input_state(f"m{number}", state))

    @rule(where=wheres, root=st.sampled_from(["", *WHERE, "gone"]))
    def root(self, where: str, root: str) -> None:
        self.both(
            lambda tx: tx.put_session(
                replace(session(where, CHANNELS[where]), root="" if root == where else root)
            )
        )

    @rule(number=numbers, where=wheres, stale=rarely, at=seconds, agent=st.sampled_from(AGENTS))
    def begin(self, number: int, where: str, stale: bool, at: int, agent: str = "default") -> None:
        row = replace(turn(f"t{number}", session=where, at=after(at)), agent=agent)
        self.both(lambda tx: tx.begin_turn(row, tx.claim_session(where, "me") - stale))

    @rule(
        number=numbers,
        lost=rarely,
        events=st.lists(event_kinds, min_size=1, max_size=4),
        fails=rarely,
        at=seconds,
    )
    def append(self, number: int, lost: bool, events: list[Event], fails: bool, at: int) -> None:
        where = home_of(number + lost)

        def work(tx: Tx) -> None:
            first = len(tx.list_events(f"t{number}")) + 1
            tx.append_events(
                where,
                tx.claim_session(where, "me"),
                f"t{number}",
                recorded(*events, first=first, at=after(at)),
            )
            if fails:
                raise AidaemonError("midway")

        self.both(work)

    @rule(number=numbers, progress=st.integers(0, 2))
    def attempt(self, number: int, progress: int) -> None:
        self.both(lambda tx: tx.add_attempt(f"t{number}", progress))

    @rule(number=numbers, why=st.sampled_from(["/stop", "/cancel"]))
    def stop(self, number: int, why: str) -> None:
        self.both(lambda tx: tx.request_cancel(f"t{number}", why))

    @rule(number=numbers)
    def forgive(self, number: int) -> None:
        self.both(lambda tx: tx.reset_attempts(f"t{number}"))

    @rule(number=numbers, at=seconds)
    def quarantine(self, number: int, at: int) -> None:
        self.both(lambda tx: tx.quarantine(f"t{number}", after(at), "set aside"))

    @rule(
        number=numbers,
        call=st.sampled_from(["2.0", "2.1"]),
        answer=st.sampled_from(Answer),
        at=seconds,
    )
    def answer(self, number: int, call: str, answer: Answer, at: int) -> None:
        self.both(
            lambda tx: tx.answer_approval(f"t{number}", call, answer, "ann", "why", after(at))
        )

    @rule(number=numbers, where=st.sampled_from(["", *WHERE]), bound=st.sampled_from([None, 1, 2]))
    def permit(self, number: int, where: str, bound: int | None) -> None:
        self.both(
            lambda tx: tx.add_grant(
                replace(grant(f"g{number}", where), uses_left=bound, expires=after(60 * number))
            )
        )

    @rule(number=numbers)
    def revoke(self, number: int) -> None:
        self.both(lambda tx: tx.revoke_grant(f"g{number}"))

    @rule(number=numbers, call=st.sampled_from(["t1/2.0", "t1/2.1", "t2/2.0"]), at=seconds)
    def use(self, number: int, call: str, at: int) -> None:
        self.both(lambda tx: tx.use_grant(f"g{number}", call, after(at)))

    @rule(number=numbers, stage=st.sampled_from(LoopStage), attempt=numbers)
    def loop(self, number: int, stage: LoopStage, attempt: int) -> None:
        row = LoopRow(
            f"l{number}",
            f"agent {number % 2}",
            WHERE[0],
            "ann",
            Label.TRUSTED,
            "go",
            "regex",
            "x",
            5,
            NOW,
        )
        over = stage in (LoopStage.COMPLETED, LoopStage.FAILED)
        now = replace(
            row,
            stage=stage,
            attempt=attempt,
            learned=("ä",) * attempt,
            ended_at=after(attempt) if over else None,
        )
        self.both(lambda tx: tx.put_loop(now))

    @rule(number=numbers)
    def ask(self, number: int) -> None:
        self.both(lambda tx: tx.open_question(f"t{number}", asked("review", after(60)), NOW))

    @rule(number=numbers, call=st.sampled_from(["2.0", "review"]))
    def settle_approval(self, number: int, call: str) -> None:
        self.both(lambda tx: tx.set_approval_state(f"t{number}", call, "consumed"))

    @rule(number=numbers, part=st.integers(-1, 3), channel=st.sampled_from(["web", "slack"]))
    def post(self, number: int, part: int, channel: str) -> None:
        self.both(lambda tx: tx.post_delivery(notice(f"t{number}", part, channel)))

    @rule(
        number=numbers,
        part=st.integers(1, 3),
        state=st.sampled_from(STATES),
        platform=st.sampled_from(["", "p1", "p1 p12"]),
        error=st.sampled_from(["", "blocked"]),
    )
    def mark(self, number: int, part: int, state: str, platform: str, error: str) -> None:
        self.both(lambda tx: tx.mark_delivery(f"t{number}", part, state, platform, error))


def home_of(number: int) -> str:
    return WHERE[number % 2]


def everything(tx: Tx) -> list[object]:
    """All that can be asked."""
    turns = [f"t{number}" for number in range(1, 4)]
    return [
        tx.list_sessions(),
        [tx.get_input(f"m{number}") for number in range(1, 4)],
        [
            (
                tx.get_turn(name),
                tx.get_turn_input(name),
                tx.list_events(name),
                tx.list_events(name, 2),
            )
            for name in turns
        ],
        [
            (tx.get_cancel_reason(name), tx.get_child(name), tx.list_children(name))
            for name in (*turns, "t7")
        ],
        [
            (
                tx.list_running_children(where),
                tx.list_waiting_inputs(where),
                tx.list_approvals(None, where),
            )
            for where in (*WHERE, *BORN)
        ],
        [(tx.list_recent_stops(agent, 9), tx.list_recent_stops(agent, 1)) for agent in AGENTS],
        [(tx.get_turn_input(name), tx.sum_day_raises(after(30))) for name in ("t7", "t8")],
        [
            (
                tx.list_waiting_inputs(where),
                tx.list_unfinished_turns(where),
                tx.list_turns(where, 2),
                tx.list_grants(where),
            )
            for where in WHERE
        ],
        (tx.list_all_turns(3), tx.list_unfinished_sessions(), tx.list_grants("*")),
        (tx.list_approvals(), tx.list_approvals("pending"), tx.list_approvals("void", WHERE[0])),
        [
            (
                tx.list_outbox(state),
                tx.list_outbox(state, "web"),
                tx.list_outbox(state, None, WHERE[0]),
            )
            for state in STATES
        ],
        [tx.is_grant_used(call) for call in ("t1/2.0", "t1/2.1", "t2/2.0")],
        (
            tx.get_loop("l1"),
            tx.list_loops(),
            tx.list_loops("agent 1", 1),
            tx.list_running_loops(),
            tx.list_running_loops("agent 0"),
        ),
        [tx.list_inputs(state) for state in ("new", "command", "done", "taken")],
        [
            (tx.list_turn_outbox(name), tx.get_delivery(name, 1), tx.get_delivery(name, 9))
            for name in turns
        ],
        [
            (
                tx.list_unsent(channel),
                tx.list_channel_sessions(channel, 1),
                tx.list_channel_sessions(channel, 9),
            )
            for channel in CHANNELS.values()
        ],
        [
            tx.find_delivery(channel, "chat-1", name)
            for channel in CHANNELS.values()
            for name in ("p1", "p12", "p", "")
        ],
        (
            tx.sum_usage(NOW),
            tx.sum_usage(after(60), WHERE[0]),
            tx.count_stops(NOW),
            tx.count_stops(after(60)),
        ),
    ]


TestTwins = Twins.TestCase
TestTwins.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
)
