"""What the house itself asks a person: for more budget, for a look at an answer (F2, E10).

What the daemon has used up today, in tokens and USD: the account above all others (A19, F2).

The accounts of all turns that are at work, each under its parent's, all under the day's (F2).

At the limit a person is asked whether the turn, or the day, may use up more (F2).
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import ceil

from daemon.agent.config import BudgetConfig
from daemon.agent.context.builder import TurnContext
from daemon.agent.context.history import rebuild_turn
from daemon.agent.termination.halt import DAY, UsageToday
from daemon.core import value
from daemon.core.budget import Budget, Caps, Cost, Shortage
from daemon.core.clock import Clock
from daemon.core.events import ApprovalAsked, BudgetRaised
from daemon.core.journal import ReadTx, Store
from daemon.core.messages import Usage
from daemon.core.rows import ChildRow, UsageRow
from daemon.core.trust import Effect, Label
from daemon.core.turn import Turn
from daemon.core.turn_spec import Limits
from daemon.tools.arguments import args_hash
from daemon.tools.policy.approvals import hash_token

EXTEND, REVIEW = "extend_budget", "review_answer"


def build_system_question(
    name: str, what: str, about: Mapping[str, object], token: str, expires: datetime
) -> ApprovalAsked:
    """Asked and answered like any approval; `name` is its call id and does not begin with a digit."""
    arguments = json.dumps(about, ensure_ascii=False, sort_keys=True)
    return ApprovalAsked(
        name, what, arguments, args_hash(what, about), Effect.WRITE, hash_token(token), expires
    )


EVER = datetime(1, 1, 1, tzinfo=UTC)
Sum = tuple[int, float]
Sums = tuple[list[UsageRow], Sum, Sum]


def utc_midnight(now: datetime) -> datetime:
    """The beginning of this day, UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(slots=True)
class DailyUsage:
    """The running day's account, kept in memory beside the usage rows that it comes from."""

    clock: Clock
    budget: BudgetConfig
    account: Budget = field(default_factory=lambda: Budget(DAY))
    _day: datetime = EVER
    _known: float = 0.0
    _unpriced: bool = False
    _raised: tuple[int, float] = (0, 0.0)

    async def load(self, store: Store) -> None:
        """Take up what the journal says of today; what was set aside for calls that were cut off counts as spent."""
        self._day = utc_midnight(self.clock.now())
        rows, self._raised, (tokens, usd) = await store.read(self._look)
        self.account.spent = sum((self._cost(row) for row in rows), Cost(tokens, 0, usd))
        self._known, self._unpriced = (
            sum(row.usd or 0.0 for row in rows),
            any(row.usd is None for row in rows),
        )
        self._cap()

    def _look(self, tx: ReadTx) -> Sums:
        return tx.sum_usage(self._day), tx.sum_day_raises(self._day), tx.sum_unsettled(self._day)

    def _cost(self, row: UsageRow) -> Cost:
        usd = self.budget.worst(row.input_tokens, row.output_tokens) if row.usd is None else row.usd
        return Cost(row.input_tokens, row.output_tokens, usd)

    def charge(self, usage: Usage) -> float:
        """What budgets count for a call: its price, or the worst case where that is not known; and it is noted."""
        self._known += usage.usd or 0.0
        self._unpriced |= usage.usd is None
        return (
            self.budget.worst(usage.input_tokens, usage.output_tokens)
            if usage.usd is None
            else usage.usd
        )

    def today(self) -> UsageToday:
        """So far."""
        self.roll_over()
        spent, tokens = self.account.spent, self.account.caps.tokens or 0
        return UsageToday(
            spent.input_tokens + spent.output_tokens,
            self._known,
            self._unpriced,
            tokens,
            self.account.caps.usd or 0.0,
        )

    def raise_caps(self, event: BudgetRaised) -> None:
        """A person let this day cost more."""
        tokens, usd = self._raised
        self._raised = (tokens + event.day_tokens, usd + event.day_usd)
        self._cap()

    def set_config(self, budget: BudgetConfig) -> None:
        """From now on a day may cost so much; what people let it cost beyond that stays."""
        self.budget = budget
        self._cap()

    def roll_over(self) -> None:
        """A new day begins with nothing spent; what is held by running calls stays held."""
        day = utc_midnight(self.clock.now())
        if day > self._day:
            self._day, self._known, self._unpriced, self._raised = day, 0.0, False, (0, 0.0)
            self.account.spent = Cost()
            self._cap()

    def _cap(self) -> None:
        tokens, usd = self._raised
        self.account.caps = Caps(
            tokens=self.budget.daily_tokens + tokens if self.budget.daily_tokens else None,
            usd=self.budget.daily_usd + usd if self.budget.daily_usd else None,
        )


class BudgetExceeded(Exception):
    """The next model call could cost more than what is left."""

    def __init__(self, shortage: Shortage) -> None:
        super().__init__(shortage.kind)
        self.shortage = shortage


@dataclass(slots=True)
class Budgets:
    """The only owner of accounts. `hold` waits while others hold what is missing: it may come back unspent."""

    store: Store
    daily: DailyUsage
    _accounts: dict[str, Budget] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self, turn: Turn) -> Budget:
        """The account of a turn that is taken up now; those above it are rebuilt from the journal where need be."""
        above = await self._account(turn.parent) if turn.parent else self.daily.account
        if turn.id not in self._accounts:
            below = (
                await self.store.read(lambda tx: _of_children(tx, turn.id))
                if turn.children
                else Cost()
            )
            self._accounts.setdefault(
                turn.id, Budget(turn.id, parent=above, spent=compute_spent(turn) + below)
            )
        known = self._accounts[turn.id]
        known.caps = compute_caps(turn.limits)
        self._ended.discard(turn.id)
        return known

    def close(self, turn: Turn) -> None:
        """The turn has ended: its account goes once no child of it is at work any more."""
        self._ended.add(turn.id)
        while done := next((name for name in self._ended if self._childless(name)), ""):
            self._ended.discard(done)
            self._accounts.pop(done, None)

    async def hold(self, account: Budget, cost: Cost) -> None:
        """Set aside what a call may cost. Raises OverBudget when that is not there, and nobody else's call may leave it over."""
        while True:
            self.daily.roll_over()
            short = account.find_shortage(cost)
            if short is None:
                account.reserve(cost)
                return
            if not account.get_ancestor(short.budget).reservations:
                raise BudgetExceeded(short)
            self._settled.clear()
            await self._settled.wait()

    def hold_more(self, account: Budget, held: Cost, more: Cost) -> Cost:
        """Add to what a call under way holds; gives all that is held for it. Never waits, for it would wait for itself, too."""
        self.daily.roll_over()
        if short := account.find_shortage(more):
            raise BudgetExceeded(short)
        account.settle(held, Cost())
        account.reserve(held + more)
        return held + more

    def settle(self, account: Budget, held: Cost, actual: Cost) -> None:
        """The call is over, one way or another."""
        account.settle(held, actual)
        self._settled.set()

    def find_shortage(self, account: Budget) -> Shortage | None:
        """What has nothing left, from this account up."""
        self.daily.roll_over()
        return account.find_exhausted()

    async def _account(self, turn_id: str) -> Budget:
        if turn_id in self._accounts:
            return self._accounts[turn_id]
        turn, spent, parent = await self.store.read(lambda tx: _journalled(tx, turn_id))
        above = await self._account(parent) if parent else self.daily.account
        if turn_id not in self._accounts:
            self._accounts[turn_id] = Budget(turn_id, compute_caps(turn.limits), above, spent)
            self._ended.add(turn_id)  # until it is opened itself
        return self._accounts[turn_id]

    def _childless(self, name: str) -> bool:
        account = self._accounts.get(name)
        return account is None or all(
            other.parent is not account for other in self._accounts.values()
        )


def compute_caps(limits: Limits) -> Caps:
    """What a turn may use up."""
    return Caps(input_tokens=limits.max_input_tokens, usd=limits.max_usd)


def compute_spent(turn: Turn) -> Cost:
    """What a turn itself has used up; what was reserved and never settled counts (DESIGN 1)."""
    spent = turn.spent
    lost = [
        (one.reserved_tokens, one.reserved_usd or 0.0)
        for one in (turn.open_request, turn.open_consultation)
        if one
    ]
    sent = spent.input_tokens + spent.reserved_tokens + sum(tokens for tokens, _ in lost)
    return Cost(
        sent,
        spent.output_tokens,
        spent.charged_usd + spent.reserved_usd + sum(usd for _, usd in lost),
    )


def _journalled(tx: ReadTx, turn_id: str) -> tuple[Turn, Cost, str]:
    row = tx.get_turn(turn_id)
    turn = rebuild_turn(turn_id, row.session if row else "", tx.list_events(turn_id))
    return turn, compute_spent(turn) + _of_children(tx, turn_id), row.parent if row else ""


def _of_children(tx: ReadTx, turn_id: str) -> Cost:
    return sum((_of_child(tx, child) for child in _descendants(tx, turn_id)), Cost())


def _of_child(tx: ReadTx, child: ChildRow) -> Cost:
    return compute_spent(rebuild_turn(child.turn, child.session, tx.list_events(child.turn)))


def _descendants(tx: ReadTx, turn_id: str) -> Iterator[ChildRow]:
    for child in tx.list_children(turn_id):
        yield child
        yield from _descendants(tx, child.turn)


MONEY = 4
TURN = "turn"


@value
class BudgetExtension:
    """Asks, and knows what a yes means: as much again as the limit was at first."""

    daily: DailyUsage
    clock: Clock
    new_token: Callable[[], str]
    minutes: float

    def build_question(
        self, turn: Turn, scene: TurnContext, short: Shortage
    ) -> ApprovalAsked | None:
        """The question, where somebody may be asked and has not said no yet: not for sub-agents, not for strangers."""
        refused = any(
            one.answered and not one.agreed
            for one in turn.questions.values()
            if one.asked.tool == EXTEND
        )
        theirs = short.budget not in (turn.id, DAY) or scene.trust.session_label is Label.UNTRUSTED
        if (
            turn.spec.on_budget != "ask"
            or refused
            or theirs
            or turn.parent
            or turn.session.startswith("loop:")
        ):
            return None
        name = f"budget.{len(turn.questions) + 1}"
        whose = DAY if short.budget == DAY else TURN
        used, more = round(short.used, MONEY), max(self._more(turn, short), _rounded_up(short))
        what = {"budget": whose, "of": short.kind, "used": used, "limit": short.cap, "more": more}
        expires = self.clock.now() + timedelta(minutes=self.minutes)
        return build_system_question(name, EXTEND, what, self.new_token(), expires)

    def apply_answer(self, turn: Turn, scene: TurnContext) -> BudgetRaised | None:
        """What a yes means for the limits; the accounts know it at once."""
        asked_for = (
            (name, one) for name, one in turn.questions.items() if one.asked.tool == EXTEND
        )
        agreed = next((name for name, one in asked_for if one.agreed and not one.settled), "")
        if not agreed:
            return None
        asked = json.loads(turn.questions[agreed].asked.arguments)
        raised = _build_raise(agreed, turn.limits, asked)
        scene.account.caps = compute_caps(raised.limits)
        self.daily.raise_caps(raised)
        return raised

    def _more(self, turn: Turn, short: Shortage) -> float:
        """The first limit once more: what it was at the beginning of the turn, or of the day, not what it has grown to."""
        if short.budget == DAY:
            return (
                self.daily.budget.daily_usd
                if short.kind == "usd"
                else self.daily.budget.daily_tokens
            )
        asked = (
            json.loads(one.asked.arguments)
            for one in turn.questions.values()
            if one.asked.tool == EXTEND
        )
        return next(
            (what["limit"] for what in asked if (what["budget"], what["of"]) == (TURN, short.kind)),
            short.cap,
        )


def _rounded_up(short: Shortage) -> float:
    """What is missing for the next call: one yes is enough for it, however small the limit was."""
    return ceil(short.missing * 10**MONEY) / 10**MONEY if short.kind == "usd" else short.missing


def _build_raise(name: str, limits: Limits, asked: dict[str, float | str]) -> BudgetRaised:
    more = float(asked["more"])
    match asked["budget"], asked["of"]:
        case "day", "usd":
            return BudgetRaised(name, limits, day_usd=more)
        case "day", _:
            return BudgetRaised(name, limits, day_tokens=int(more))
        case _, "usd":
            return BudgetRaised(name, replace(limits, max_usd=(limits.max_usd or 0.0) + more))
        case _:
            return BudgetRaised(
                name, replace(limits, max_input_tokens=(limits.max_input_tokens or 0) + int(more))
            )
