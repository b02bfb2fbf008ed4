"""Budgets of turns and of the day, in tokens and USD; the question whether more may be used up
(A19, F2).
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from secrets import token_hex

from daemon.agent.budget_tree import Budget, Caps, Cost
from daemon.agent.config import BudgetConfig
from daemon.agent.context.builder import TurnContext
from daemon.agent.context.history import rebuild_turn
from daemon.agent.system_questions import EXTEND_TOOL
from daemon.agent.termination.conditions import DAY, OTHERS
from daemon.core import value
from daemon.core.clock import Clock, find_midnight
from daemon.core.errors import BudgetExceeded, Shortage
from daemon.core.events import ApprovalAsked, BudgetRaised
from daemon.core.messages import Usage
from daemon.core.rows import GOAL_PREFIX
from daemon.core.trust import AnswerTimes, Effect, Label
from daemon.core.turn import Turn
from daemon.core.turn_spec import Limits
from daemon.store.journal import Store, Tx
from daemon.tools.calls import args_hash, canonical_json


def build_system_question(
    name: str,
    what: str,
    about: Mapping[str, object],
    expires: datetime,
    effect: Effect = Effect.WRITE,
) -> ApprovalAsked:
    """Asked and answered like any approval; `name` is its call id and does not begin with a
    digit.
    """
    arguments, hashed = canonical_json(about), args_hash(what, about)
    return ApprovalAsked(name, what, arguments, hashed, effect, token_hex(32), expires)


@value
class Use:
    """What a turn has used up of one kind; `limit` is None where there is none."""

    of: str
    used: float
    limit: float | None


def list_uses(turn: Turn) -> list[Use]:
    """Iterations, tokens in, seconds of work and USD: each ends the turn by itself (D1)."""
    spent, limits = turn.spent, turn.limits
    tokens = spent.input_tokens + spent.reserved_tokens
    return [
        Use("iterations", turn.iterations, turn.max_iterations),
        Use("input_tokens", tokens, limits.max_input_tokens),
        Use("seconds", spent.seconds, limits.max_seconds),
        Use("usd", spent.charged_usd + spent.reserved_usd, limits.max_usd),
    ]


IsOwners = Callable[[Tx, str], bool]  # what this session uses is the owner's own
EVER = datetime(1, 1, 1, tzinfo=UTC)
MONEY_DIGITS = 4
LOOK_AGAIN, MAX_KNOWN = timedelta(minutes=1), 5000
TURN = "turn"


@value
class UsageToday:
    """What the whole daemon has used up since midnight, and what it may. `unpriced`: calls of
    unknown price come on top.
    """

    tokens: int = 0
    usd: float = 0.0
    unpriced: bool = False
    max_tokens: int = 0
    max_usd: float = 0.0


@dataclass(slots=True)
class DailyUsage:
    """The running day's account, kept in memory beside the usage rows that it comes from. `others`:
    what all but the owner's own chats use stands there, too, below the day's.
    """

    clock: Clock
    budget: BudgetConfig
    is_owners: IsOwners
    account: Budget = field(default_factory=lambda: Budget(DAY))
    others: Budget = field(init=False)
    _day_ends: datetime = EVER
    _known: float = 0.0
    _unpriced: bool = False
    _raised: tuple[int, float] = (0, 0.0)

    def __post_init__(self) -> None:
        self.others = Budget(OTHERS, parent=self.account)

    async def load(self, store: Store) -> None:
        """Read today's usage; what was set aside for calls that were cut off counts as spent, and
        as the others', for nobody knows any more whose it was.
        """
        self.roll_over()
        day = find_midnight(self.clock.now())

        def look(tx: Tx) -> tuple[list[tuple[str, Usage]], set[str], tuple[int, float], Cost]:
            rows, (tokens, usd) = tx.list_session_usage(day), tx.sum_unsettled(day)
            own = {one for one in {session for session, _ in rows} if self.is_owners(tx, one)}
            return rows, own, tx.sum_day_raises(day), Cost(tokens, 0, usd)

        rows, own, self._raised, lost = await store.read(look)
        self.account.spent = self.others.spent = lost
        for session, usage in rows:
            account = self.account if session in own else self.others
            cost = Cost(usage.input_tokens, usage.output_tokens, self.charge(usage))
            account.add_spent(cost)
        self._cap()

    def charge(self, usage: Usage) -> float:
        """What budgets count for a call: its price, or the worst case where that is not known; and
        it is noted.
        """
        if usage.usd is not None:
            self._known += usage.usd
            return usage.usd
        self._unpriced = True
        return self.worst(usage.input_tokens, usage.output_tokens)

    def worst(self, sent: int, received: int) -> float:
        """What budgets count where the price is not known, in USD (F2)."""
        budget = self.budget
        return (sent * budget.unknown_input_usd + received * budget.unknown_output_usd) / 1_000_000

    def today(self) -> UsageToday:
        """So far."""
        self.roll_over()
        spent, caps = self.account.spent, self.account.caps
        used = spent.input_tokens + spent.output_tokens
        return UsageToday(used, self._known, self._unpriced, caps.tokens or 0, caps.usd or 0.0)

    def raise_caps(self, event: BudgetRaised) -> None:
        """A person let this day cost more."""
        tokens, usd = self._raised
        self._raised = (tokens + event.day_tokens, usd + event.day_usd)
        self._cap()

    def set_config(self, budget: BudgetConfig) -> None:
        """From now on a day may cost so much; what people allowed beyond that stays."""
        self.budget = budget
        self._cap()

    def roll_over(self) -> None:
        """The owner's next day begins with nothing spent; what running calls hold stays held."""
        now = self.clock.now()
        if now < self._day_ends:
            return
        self._day_ends = find_midnight(now, 1)
        self._known, self._unpriced, self._raised = 0.0, False, (0, 0.0)
        self.account.spent = self.others.spent = Cost()
        self._cap()

    def _cap(self) -> None:
        daily, (tokens, usd) = self.budget, self._raised
        self.account.caps = Caps(
            tokens=daily.daily_tokens + tokens if daily.daily_tokens else None,
            usd=daily.daily_usd + usd if daily.daily_usd else None,
        )
        part, caps = 1 - daily.owner_share, self.account.caps
        self.others.caps = Caps(
            tokens=None if caps.tokens is None else int(caps.tokens * part),
            usd=None if caps.usd is None else caps.usd * part,
        )


@dataclass(slots=True)
class Budgets:
    """The only owner of accounts: each turn's under its parent's, all under the day's (F2), but for
    the owner's own chats under that of the others.

    `hold` waits while others hold what is missing: it may come back unspent. At the limit a person
    is asked, and has so long to answer as `times` says; a yes allows as much again as the limit was
    at first.
    """

    store: Store
    daily: DailyUsage
    times: AnswerTimes = field(default_factory=AnswerTimes)
    _accounts: dict[str, Budget] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)
    _owners: dict[str, tuple[datetime, bool]] = field(default_factory=dict)

    async def open(self, turn: Turn) -> Budget:
        """The account of a turn that runs now; those above it are rebuilt from the journal where
        need be.
        """
        account = await self._load(turn.id, turn)
        account.caps = compute_caps(turn.limits)
        self._ended.discard(turn.id)
        return account

    async def _load(self, turn_id: str, turn: Turn | None = None) -> Budget:
        if turn_id not in self._accounts:
            below = Cost()
            if turn is None or turn.children:
                turn, below = await self.store.read(
                    lambda tx: (turn or _load_turn(tx, turn_id), _sum_children(tx, turn_id))
                )
            above = await (
                self._load(turn.parent) if turn.parent else self.load_account(turn.session)
            )
            if turn_id not in self._accounts:
                caps, spent = compute_caps(turn.limits), compute_spent(turn) + below
                self._accounts[turn_id] = Budget(turn_id, caps, above, spent)
                self._ended.add(turn_id)  # until it is opened itself
        return self._accounts[turn_id]

    async def load_account(self, session: str) -> Budget:
        """The account of the session's goal (G6), where it has one; else the day's for the owner's
        own chats, and that of the others.
        """
        budget, others = self.daily.budget, self.daily.others
        if session.startswith(GOAL_PREFIX) and session not in self._accounts:
            prices = budget.unknown_input_usd, budget.unknown_output_usd
            goal, usd = await self.store.read(
                lambda tx: (tx.get_goal_of(session), tx.sum_spent(*prices, session))
            )
            if goal and session not in self._accounts:
                caps = Caps(usd=goal.usd)
                self._accounts[session] = Budget(session, caps, others, Cost(usd=usd))
                self._ended.add(session)  # it goes with its last turn
        if session in self._accounts:
            return self._accounts[session]
        return self.daily.account if await self._is_owners(session) else others

    async def _is_owners(self, session: str) -> bool:
        """As the journal said within the last minute."""
        now = self.daily.clock.now()
        known = self._owners.get(session)
        if known is None or abs(now - known[0]) > LOOK_AGAIN:
            if len(self._owners) >= MAX_KNOWN:
                self._owners.clear()
            is_own = await self.store.read(lambda tx: self.daily.is_owners(tx, session))
            known = self._owners[session] = now, is_own
        return known[1]

    def close(self, turn: Turn) -> None:
        """The turn has ended: its account goes once no child of it runs any more."""
        self._ended.add(turn.id)
        while True:
            parents = {id(account.parent) for account in self._accounts.values()}
            done = [one for one in self._ended if id(self._accounts.get(one)) not in parents]
            if not done:
                return
            for one in done:
                self._ended.discard(one)
                self._accounts.pop(one, None)

    async def hold(self, account: Budget, cost: Cost, *, waits: bool = True) -> None:
        """Set aside what a call may cost. Raises BudgetExceeded when it is not there, and no other
        call may give it back; without `waits` also where one may.
        """
        while True:
            self.daily.roll_over()
            short = account.find_shortage(cost)
            if short is None:
                account.reserve(cost)
                return
            if not (waits and short.reservations):
                raise BudgetExceeded(short)
            self._settled.clear()
            await self._settled.wait()

    def settle(self, account: Budget, held: Cost, actual: Cost) -> None:
        """The call is over, one way or another."""
        account.settle(held, actual)
        self._settled.set()

    def build_question(
        self, turn: Turn, context: TurnContext, short: Shortage
    ) -> ApprovalAsked | None:
        """The question, where somebody may be asked and has not said no yet: not for sub-agents,
        not for strangers.
        """
        asked = [one for one in turn.questions.values() if one.asked.tool == EXTEND_TOOL]
        of_day, money, missing = short.budget == DAY, short.kind == "usd", short.missing
        if (
            turn.spec.on_budget != "ask"
            or any(one.answered and not one.agreed for one in asked)
            or not (of_day or short.budget == turn.id)
            or context.trust.session_label is Label.UNTRUSTED
            or turn.parent
        ):
            return None
        if of_day:
            daily = self.daily.budget
            first = daily.daily_usd if money else daily.daily_tokens
        else:  # the limit at the beginning of the turn, not what it has grown to
            earlier = [json.loads(one.asked.arguments) for one in asked]
            same = (
                one["limit"] for one in earlier if (one["budget"], one["of"]) == (TURN, short.kind)
            )
            first = next(same, short.cap)
        if money:  # rounded up: one yes is enough for the next call, however small the limit was
            missing = ceil(missing * 10**MONEY_DIGITS) / 10**MONEY_DIGITS
        about = {
            "budget": DAY if of_day else TURN,
            "of": short.kind,
            "used": round(short.used, MONEY_DIGITS),
            "limit": short.cap,
            "more": max(first, missing),
        }
        trust = context.trust
        expires = self.times.find_expiry(
            self.daily.clock.now(), trust.session_label, by_itself=trust.by_itself
        )
        name = f"budget.{len(turn.questions) + 1}"
        return build_system_question(name, EXTEND_TOOL, about, expires)

    def apply_answer(self, turn: Turn, context: TurnContext) -> BudgetRaised | None:
        """What a yes means for the limits; the accounts know it at once."""
        for one in turn.questions.values():
            if one.agreed and not one.settled and one.asked.tool == EXTEND_TOOL:
                break
        else:
            return None
        asked, limits = json.loads(one.asked.arguments), turn.limits
        more, money = float(asked["more"]), asked["of"] == "usd"
        name = one.asked.call_id
        raised = BudgetRaised(name, limits)
        if asked["budget"] == DAY:
            raised = BudgetRaised(name, limits, 0 if money else int(more), more if money else 0.0)
        elif asked["of"] == "seconds":
            raised = replace(raised, limits=replace(limits, max_seconds=limits.max_seconds + more))
        elif money:
            raised = replace(raised, limits=replace(limits, max_usd=(limits.max_usd or 0.0) + more))
        else:
            tokens = (limits.max_input_tokens or 0) + int(more)
            raised = replace(raised, limits=replace(limits, max_input_tokens=tokens))
        context.account.caps = compute_caps(raised.limits)
        self.daily.raise_caps(raised)
        return raised


def compute_caps(limits: Limits) -> Caps:
    """What a turn may use up."""
    return Caps(input_tokens=limits.max_input_tokens, usd=limits.max_usd)


def compute_spent(turn: Turn) -> Cost:
    """What a turn itself has used up; what was reserved and never settled counts
    (guarantees.md).
    """
    spent = turn.spent
    sent, usd = spent.input_tokens + spent.reserved_tokens, spent.charged_usd + spent.reserved_usd
    for lost in (turn.open_request, turn.open_consultation):
        if lost:
            sent, usd = sent + lost.reserved_tokens, usd + (lost.reserved_usd or 0.0)
    return Cost(sent, spent.output_tokens, usd)


def _load_turn(tx: Tx, turn_id: str) -> Turn:
    row, events = tx.get_turn(turn_id), tx.list_events(turn_id)
    session, parent = (row.session, row.parent) if row else ("", "")
    return rebuild_turn(turn_id, session, events, parent=parent)


def _sum_children(tx: Tx, turn_id: str) -> Cost:
    total = Cost()
    for child in tx.list_children(turn_id):
        total += compute_spent(_load_turn(tx, child.turn)) + _sum_children(tx, child.turn)
    return total
