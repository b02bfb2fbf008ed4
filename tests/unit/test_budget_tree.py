"""The budget tree as a promise over any tree, any caps and any order of calls: no account goes over its cap (F2, A19, D1)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from daemon.agent.budget_tree import Budget, Caps, Cost
from daemon.agent.budgets import Budgets, DailyUsage, IsOwners
from daemon.agent.config import BudgetConfig
from daemon.core.errors import BudgetExceeded
from daemon.core.events import BudgetRaised, Limits
from daemon.core.turn import Turn
from daemon.store.journal import Tx
from daemon.store.sqlite import SqliteStore
from tests.fakes.tools import SteadyClock
from tests.fakes.turns import Nowhere

SOON = 10
AMOUNT = st.integers(0, 30)
CAP = st.none() | st.integers(0, 100)
DAY = 24
OF_OTHERS = " of others"


@st.composite
def costs(draw: st.DrawFn) -> Cost:
    """USD in whole dollars, so that sums can be compared to the cent."""
    return Cost(draw(AMOUNT), draw(AMOUNT), float(draw(AMOUNT)))


@st.composite
def trees(draw: st.DrawFn) -> list[Budget]:
    """Any tree: each account stands below one that was made before it."""
    accounts: list[Budget] = []
    for at in range(draw(st.integers(1, 7))):
        above = draw(st.sampled_from(accounts)) if accounts else None
        accounts.append(Budget(f"a{at}", Caps(draw(CAP), draw(CAP), draw(CAP)), above))
    return accounts


def within(account: Budget) -> bool:
    """What is spent and what is held fit under the cap, of every kind."""
    used, caps = account.spent + account.reserved, account.caps
    pairs = (
        (used.input_tokens, caps.input_tokens),
        (used.input_tokens + used.output_tokens, caps.tokens),
        (used.usd, caps.usd),
    )
    return all(cap is None or amount <= cap for amount, cap in pairs)


def part_of(cost: Cost, percent: int) -> Cost:
    """Something that a call held so much for may turn out to cost."""
    return Cost(
        cost.input_tokens * percent // 100,
        cost.output_tokens * percent // 100,
        float(int(cost.usd) * percent // 100),
    )


@given(trees(), st.data())
def test_f2_no_account_is_ever_above_its_cap_and_nothing_is_lost(
    tree: list[Budget], data: st.DataObject
) -> None:
    open_calls: list[tuple[Budget, Cost]] = []
    billed: dict[str, Cost] = {account.name: Cost() for account in tree}
    for _ in range(data.draw(st.integers(1, 25))):
        if open_calls and data.draw(st.booleans()):
            account, held = open_calls.pop(data.draw(st.integers(0, len(open_calls) - 1)))
            actual = part_of(held, data.draw(st.integers(0, 100)))
            account.settle(held, actual)
            for above in account.iter_ancestors():
                billed[above.name] += actual
        else:
            account, cost = data.draw(st.sampled_from(tree)), data.draw(costs())
            if account.find_shortage(cost) is None:
                account.reserve(cost)
                open_calls.append((account, cost))
        assert all(within(account) for account in tree)
        assert {account.name: account.spent for account in tree} == billed
    for account, held in open_calls:
        account.settle(held, Cost())
    assert all((account.reserved, account.reservations) == (Cost(), 0) for account in tree)


@given(trees(), costs(), st.data())
def test_f2_what_is_refused_would_not_fit_and_what_is_left_does(
    tree: list[Budget], cost: Cost, data: st.DataObject
) -> None:
    account = data.draw(st.sampled_from(tree))
    left = account.compute_remaining()
    fits = all(
        room is None or amount <= room
        for amount, room in (
            (cost.input_tokens, left.input_tokens),
            (cost.input_tokens + cost.output_tokens, left.tokens),
            (cost.usd, left.usd),
        )
    )
    short = account.find_shortage(cost)
    assert (short is None) == fits
    if short:
        caps = {above.name: above.caps for above in account.iter_ancestors()}
        assert caps[short.budget] != Caps()


@pytest.mark.parametrize(
    ("caps", "kind"),
    [
        (Caps(input_tokens=10), "sent"),
        (Caps(tokens=15), "tokens"),
        (Caps(usd=2.0), "usd"),
        (Caps(), ""),
    ],
)
def test_d1_each_kind_is_a_breaker_of_its_own(caps: Caps, kind: str) -> None:
    account = Budget("t1", caps, Budget("day"))
    assert account.find_shortage() is None
    account.settle(Cost(), Cost(10, 5, 2.0))
    short = account.find_shortage()
    assert (short.kind if short else "") == kind


@dataclass
class Bill:
    """What a provider charges for calls, and the most that stood open or was paid at any time."""

    paid: Cost = field(default_factory=Cost)
    calls: int = 0
    refused: int = 0
    stopped: int = 0


@dataclass
class World:
    """A parent at work, any number of children below it, all under the day."""

    budgets: Budgets
    parent: Budget
    bill: Bill = field(default_factory=Bill)

    async def child(self, name: str, limits: Limits) -> Budget:
        return await self.budgets.open(turn_of(name, limits, "parent"))

    async def call(self, account: Budget, held: Cost, actual: Cost, waits: int) -> None:
        """As asking and consult do it: held before, settled after, whatever comes in between."""
        await self.budgets.hold(account, held)
        charged = held
        try:
            for _ in range(waits):
                await asyncio.sleep(0)
            charged = actual
        finally:
            self.bill.paid += charged
            self.bill.calls += 1
            self.budgets.settle(account, held, charged)


def turn_of(name: str, limits: Limits, parent: str = "") -> Turn:
    turn = Turn(name, f"web:{name}", Nowhere(), parent=parent)
    turn.limits = limits
    return turn


def always(tx: Tx, session: str) -> bool:
    """Everything is the owner's."""
    return True


@asynccontextmanager
async def world(
    limits: Limits, day: BudgetConfig | None = None, is_owners: IsOwners = always
) -> AsyncIterator[World]:
    folder = TemporaryDirectory()
    store = await SqliteStore.open(Path(folder.name) / "journal.db")
    ledger = DailyUsage(SteadyClock(), day or BudgetConfig(), is_owners)
    await ledger.load(store)
    budgets = Budgets(store, ledger)
    parent = await budgets.open(turn_of("parent", limits))
    async with asyncio.timeout(SOON):  # a holder that is never woken would wait for ever
        yield World(budgets, parent)
    await store.aclose()
    folder.cleanup()


def limited(kind: str, cap: int) -> tuple[Limits, BudgetConfig]:
    """The parent's limit, or the day's, is the one in the way."""
    return {
        "sent": (Limits(max_input_tokens=cap), BudgetConfig()),
        "usd": (Limits(max_usd=float(cap)), BudgetConfig()),
        "day tokens": (Limits(), BudgetConfig(daily_tokens=cap)),
        "day usd": (Limits(), BudgetConfig(daily_usd=float(cap))),
        "day tokens of others": (Limits(), BudgetConfig(daily_tokens=2 * cap, owner_share=0.5)),
        "day usd of others": (Limits(), BudgetConfig(daily_usd=2.0 * cap, owner_share=0.5)),
    }[kind]


def amount(kind: str, cost: Cost) -> float:
    return {
        "sent": cost.input_tokens,
        "usd": cost.usd,
        "day tokens": cost.input_tokens + cost.output_tokens,
        "day usd": cost.usd,
    }[kind.removesuffix(OF_OTHERS)]


async def twenty(kind: str, cap: int, seed: int) -> Bill:
    """Twenty children call at once, again and again, until each is refused, done, or cancelled in the middle."""
    random = Random(seed)
    limits, day = limited(kind, cap)
    async with world(limits, day, lambda tx, session: OF_OTHERS not in kind) as it:

        async def work(name: str) -> None:
            account = await it.child(name, Limits())
            try:
                for _ in range(random.randint(1, 5)):
                    held = Cost(
                        random.randint(0, cap), random.randint(0, 5), float(random.randint(0, cap))
                    )
                    await it.call(
                        account, held, part_of(held, random.randint(0, 100)), random.randint(0, 4)
                    )
            except BudgetExceeded:
                it.bill.refused += 1

        tasks = [asyncio.create_task(work(f"child{n}")) for n in range(20)]
        for task in random.sample(tasks, random.randint(0, 6)):
            await asyncio.sleep(0)
            it.bill.stopped += task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(
            outcome is None or isinstance(outcome, asyncio.CancelledError) for outcome in outcomes
        )
        for account in it.parent.iter_ancestors():
            assert (account.reserved, account.reservations, account.spent) == (
                Cost(),
                0,
                it.bill.paid,
            )
        return it.bill


@settings(deadline=None)
@given(
    st.sampled_from(
        [
            "sent",
            "usd",
            *(f"day {one}{who}" for one in ("tokens", "usd") for who in ("", OF_OTHERS)),
        ]
    ),
    st.integers(0, 60),
    st.integers(0, 10_000),
)
def test_f2_twenty_parallel_children_never_exceed_the_cap_and_none_waits_for_ever(
    kind: str, cap: int, seed: int
) -> None:
    """A17: whatever they hold, whatever it costs in the end, whoever is cancelled; a limit of 0 in [budget] is none."""
    bill = asyncio.run(twenty(kind, cap, seed))
    if cap or not kind.startswith("day"):
        assert amount(kind, bill.paid) <= cap


def test_f2_the_twenty_do_meet_the_cap_are_refused_and_are_cancelled() -> None:
    """Or the property above would say nothing."""
    bills = [asyncio.run(twenty("usd", 30, seed)) for seed in range(20)]
    assert all(bill.refused and bill.calls > 3 for bill in bills)
    assert any(bill.stopped for bill in bills) and any(bill.paid.usd >= 20 for bill in bills)


async def test_f2_a_child_waits_while_another_holds_what_is_missing_and_goes_on_when_it_comes_back_unspent() -> (
    None
):
    async with world(Limits(max_usd=10.0)) as it:
        one, two = await it.child("one", Limits()), await it.child("two", Limits())
        await it.budgets.hold(one, Cost(usd=8.0))
        waiting = asyncio.create_task(it.budgets.hold(two, Cost(usd=8.0)))
        await asyncio.sleep(0)
        assert not waiting.done()
        it.budgets.settle(one, Cost(usd=8.0), Cost(usd=1.0))
        await waiting
        assert (it.parent.spent.usd, it.parent.reserved.usd) == (1.0, 8.0)


async def test_f2_one_who_waits_in_vain_is_refused_and_told_what_stands_in_the_way() -> None:
    async with world(Limits(max_usd=10.0)) as it:
        one, two = await it.child("one", Limits()), await it.child("two", Limits())
        await it.budgets.hold(one, Cost(usd=8.0))
        waiting = asyncio.create_task(it.budgets.hold(two, Cost(usd=8.0)))
        await asyncio.sleep(0)
        it.budgets.settle(one, Cost(usd=8.0), Cost(usd=8.0))
        with pytest.raises(BudgetExceeded) as refused:
            await waiting
        short = refused.value.shortage
        assert (short.budget, short.kind, short.used, short.cap) == ("parent", "usd", 8.0, 10.0)


async def test_f2_a_cancelled_holder_lets_go_and_one_that_was_only_waiting_held_nothing() -> None:
    async with world(Limits(max_usd=10.0)) as it:
        one, two = await it.child("one", Limits()), await it.child("two", Limits())
        calling = asyncio.create_task(it.call(one, Cost(usd=8.0), Cost(usd=8.0), 1000))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(it.budgets.hold(two, Cost(usd=2.5))) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        calling.cancel()
        outcomes = await asyncio.gather(calling, *waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes[:2]] == [asyncio.CancelledError] * 2
        assert all(
            isinstance(outcome, BudgetExceeded) for outcome in outcomes[2:]
        )  # the cut call counts as spent
        assert (it.parent.spent.usd, it.parent.reserved.usd, it.parent.reservations) == (
            8.0,
            0.0,
            0,
        )


async def test_f2_what_a_grandchild_costs_is_charged_to_everyone_above_and_to_no_sibling() -> None:
    """B11, A17."""
    async with world(Limits(max_usd=10.0)) as it:
        child = await it.child("child", Limits())
        sibling = await it.child("sibling", Limits())
        grandchild = await it.budgets.open(turn_of("grandchild", Limits(), "child"))
        await it.call(grandchild, Cost(9, 9, 3.0), Cost(7, 5, 2.0), 0)
        chain = [account.name for account in grandchild.iter_ancestors()]
        assert chain == ["grandchild", "child", "parent", "day"]
        assert all(
            account.spent == Cost(7, 5, 2.0) for account in (*child.iter_ancestors(), grandchild)
        )
        assert sibling.spent == Cost()


async def test_f2_an_account_stays_while_a_child_of_its_turn_is_at_work() -> None:
    """A background agent outlives its parent's turn: what it costs still counts above."""
    async with world(Limits(max_usd=10.0)) as it:
        child = await it.child("child", Limits())
        it.budgets.close(turn_of("parent", Limits()))
        await it.call(child, Cost(usd=4.0), Cost(usd=4.0), 0)
        second = await it.child("second", Limits())
        assert second.parent is it.parent and it.parent.spent.usd == 4.0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=12), st.integers(1, 40))
def test_f2_all_who_wait_are_woken_in_the_end(held: Sequence[int], cap: int) -> None:
    async def run() -> None:
        async with world(Limits(max_usd=float(cap))) as it:
            account = await it.child("child", Limits())
            calls = (
                it.call(account, Cost(usd=float(one)), Cost(), 2) for one in held if one <= cap
            )
            await asyncio.gather(*calls)
            assert it.parent.reserved == Cost()

    asyncio.run(run())


class Days(RuleBasedStateMachine):
    """Calls are held and settled, people let a day cost more, and midnight comes in between (A19, F2)."""

    calls: Bundle[tuple[Budget, Cost]] = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = SteadyClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
        self.ledger = DailyUsage(self.clock, BudgetConfig(daily_tokens=100, daily_usd=50.0), always)
        self.folder = TemporaryDirectory()
        opening = SqliteStore.open(Path(self.folder.name) / "journal.db")
        self.budgets = Budgets(self.runner.run(opening), self.ledger)
        self.runner.run(self.ledger.load(self.budgets.store))
        self.turn = self.runner.run(self.budgets.open(turn_of("t1", Limits())))
        self.spent, self.held, self.carried = Cost(), Cost(), Cost()
        self.raised = (0, 0.0)

    def teardown(self) -> None:
        self.runner.run(self.budgets.store.aclose())
        self.runner.close()
        self.folder.cleanup()

    @rule(target=calls, cost=costs())
    def hold(self, cost: Cost) -> tuple[Budget, Cost]:
        verdict = self.runner.run(self._try(cost))
        used = self.spent + self.held + cost
        fits = (
            used.input_tokens + used.output_tokens <= 100 + self.raised[0]
            and used.usd <= 50.0 + self.raised[1]
        )
        assert (verdict == "held") == fits
        self.held += cost if fits else Cost()
        return self.turn, cost if fits else Cost()

    async def _try(self, cost: Cost) -> str:
        trying = asyncio.create_task(self.budgets.hold(self.turn, cost))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not trying.done():
            trying.cancel()
            return "waits"
        return "refused" if trying.exception() else "held"

    @rule(call=consumes(calls), percent=st.integers(0, 100))
    def settle(self, call: tuple[Budget, Cost], percent: int) -> None:
        account, held = call
        if held == Cost():
            return
        actual = part_of(held, percent)
        self.budgets.settle(account, held, actual)
        self.held, self.spent = self.held + part_of(held, -100), self.spent + actual

    @rule(hours=st.integers(1, 30))
    def later(self, hours: int) -> None:
        before = self.clock.at
        self.clock.at += timedelta(hours=hours)
        if self.clock.at.date() != before.date():
            self.spent, self.carried, self.raised = Cost(), self.held, (0, 0.0)

    @rule(tokens=st.integers(0, 50), usd=st.integers(0, 50))
    def say_yes(self, tokens: int, usd: int) -> None:
        self.ledger.today()  # whoever asks has looked at the account
        self.ledger.raise_caps(BudgetRaised("budget.1", Limits(), tokens, float(usd)))
        self.raised = (self.raised[0] + tokens, self.raised[1] + usd)

    @invariant()
    def the_day_says_what_happened(self) -> None:
        today = self.ledger.today()
        assert (today.tokens, today.max_tokens) == (
            self.spent.input_tokens + self.spent.output_tokens,
            100 + self.raised[0],
        )
        assert (self.ledger.account.spent, self.ledger.account.reserved) == (self.spent, self.held)

    @invariant()
    def no_day_costs_more_than_it_may(self) -> None:
        """But for calls that were under way at midnight, when a yes of yesterday's was void."""
        used = self.spent + self.held
        most = max(100 + self.raised[0], self.carried.input_tokens + self.carried.output_tokens)
        assert used.input_tokens + used.output_tokens <= most
        assert used.usd <= max(50.0 + self.raised[1], self.carried.usd)


Days.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


class TestF2Midnight(Days.TestCase):
    """A19 F2: what is spent starts at nothing, what is held stays held, a yes was for its day."""
