"""The accounts of all turns that are at work, each under its parent's, all under the day's (F2)."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from daemon.agent.money.ledger import Ledger
from daemon.agent.past import rebuild
from daemon.core.budget import Account, Caps, Cost, Shortage
from daemon.core.rows import ChildRow
from daemon.core.terms import Limits
from daemon.core.turn import Turn
from daemon.store.protocol import ReadTx, Store


class OverBudget(Exception):
    """The next model call could cost more than what is left."""

    def __init__(self, shortage: Shortage) -> None:
        super().__init__(shortage.kind)
        self.shortage = shortage


@dataclass(slots=True)
class Budgets:
    """The only owner of accounts. `hold` waits while others hold what is missing: it may come back unspent."""

    store: Store
    ledger: Ledger
    _accounts: dict[str, Account] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self, turn: Turn) -> Account:
        """The account of a turn that is taken up now; those above it are rebuilt from the journal where need be."""
        above = await self._account(turn.parent) if turn.parent else self.ledger.account
        if turn.id not in self._accounts:
            below = await self.store.read(lambda tx: _of_children(tx, turn.id)) if turn.children else Cost()
            self._accounts.setdefault(turn.id, Account(turn.id, above=above, spent=spent_of(turn) + below))
        known = self._accounts[turn.id]
        known.caps = caps_of(turn.limits)
        self._ended.discard(turn.id)
        return known

    def close(self, turn: Turn) -> None:
        """The turn has ended: its account goes once no child of it is at work any more."""
        self._ended.add(turn.id)
        while done := next((name for name in self._ended if self._childless(name)), ""):
            self._ended.discard(done)
            self._accounts.pop(done, None)

    async def hold(self, account: Account, cost: Cost) -> None:
        """Set aside what a call may cost. Raises OverBudget when that is not there, and nobody else's call may leave it over."""
        while True:
            self.ledger.turn_the_page()
            short = account.short(cost)
            if short is None:
                account.hold(cost)
                return
            if not account.named(short.account).holders:
                raise OverBudget(short)
            self._settled.clear()
            await self._settled.wait()

    def hold_more(self, account: Account, held: Cost, more: Cost) -> Cost:
        """Add to what a call under way holds; gives all that is held for it. Never waits, for it would wait for itself, too."""
        self.ledger.turn_the_page()
        if short := account.short(more):
            raise OverBudget(short)
        account.settle(held, Cost())
        account.hold(held + more)
        return held + more

    def settle(self, account: Account, held: Cost, actual: Cost) -> None:
        """The call is over, one way or another."""
        account.settle(held, actual)
        self._settled.set()

    def over(self, account: Account) -> Shortage | None:
        """What has nothing left, from this account up."""
        self.ledger.turn_the_page()
        return account.over()

    async def _account(self, turn_id: str) -> Account:
        if turn_id in self._accounts:
            return self._accounts[turn_id]
        turn, spent, parent = await self.store.read(lambda tx: _journalled(tx, turn_id))
        above = await self._account(parent) if parent else self.ledger.account
        if turn_id not in self._accounts:
            self._accounts[turn_id] = Account(turn_id, caps_of(turn.limits), above, spent)
            self._ended.add(turn_id)  # until it is opened itself
        return self._accounts[turn_id]

    def _childless(self, name: str) -> bool:
        account = self._accounts.get(name)
        return account is None or all(other.above is not account for other in self._accounts.values())


def caps_of(limits: Limits) -> Caps:
    """What a turn may use up."""
    return Caps(sent=limits.max_input_tokens, usd=limits.max_usd)


def spent_of(turn: Turn) -> Cost:
    """What a turn itself has used up; what was reserved and never settled counts (DESIGN 1)."""
    spent = turn.spent
    lost = [(one.reserved_tokens, one.reserved_usd or 0.0) for one in (turn.asked, turn.consulting) if one]
    sent = spent.input_tokens + spent.reserved_tokens + sum(tokens for tokens, _ in lost)
    return Cost(sent, spent.output_tokens, spent.charged_usd + spent.reserved_usd + sum(usd for _, usd in lost))


def _journalled(tx: ReadTx, turn_id: str) -> tuple[Turn, Cost, str]:
    row = tx.turn(turn_id)
    turn = rebuild(turn_id, row.session if row else "", tx.events(turn_id))
    return turn, spent_of(turn) + _of_children(tx, turn_id), row.parent if row else ""


def _of_children(tx: ReadTx, turn_id: str) -> Cost:
    return sum((_of_child(tx, child) for child in _descendants(tx, turn_id)), Cost())


def _of_child(tx: ReadTx, child: ChildRow) -> Cost:
    return spent_of(rebuild(child.turn, child.session, tx.events(child.turn)))


def _descendants(tx: ReadTx, turn_id: str) -> Iterator[ChildRow]:
    for child in tx.children(turn_id):
        yield child
        yield from _descendants(tx, child.turn)
