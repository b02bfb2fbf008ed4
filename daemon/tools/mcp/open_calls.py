"""Calls of an MCP server that a person is asked about while they run (elicitation, G2)."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.events import ApprovalAnswered
from daemon.core.rows import ApprovalRow
from daemon.core.trust import ANSWER_CHARS, Answer
from daemon.store.journal import Store, Tx
from daemon.tools.base import PersonQuestion, ToolOutput
from daemon.tools.mcp.questions import (
    DECLINED,
    LAPSED,
    YES,
    FormField,
    FormReply,
    Unaskable,
    Unclear,
    make_question,
    read_form,
)
from daemon.tools.mcp.tools import stable_json

MAX_QUESTIONS, HOLD_S, LOOK_EVERY_S = 12, 24 * 3600.0, 5.0


@dataclass(slots=True, eq=False)
class AskedQuestion:
    """One question, and the answer to exactly this one; None for none."""

    question: PersonQuestion
    answer: "asyncio.Future[ApprovalAnswered | None]" = field(default_factory=asyncio.Future)


@dataclass(slots=True)
class OpenCall:
    """A call in the background. Its questions are answered one by one; whoever waits for it gets
    the next question or its result.
    """

    server: str
    tool: str = ""
    can_ask: bool = True
    _task: asyncio.Task[ToolOutput] | None = None
    _asked: list[AskedQuestion] = field(default_factory=list)
    _shown: AskedQuestion | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _questions: int = 0
    _replies: dict[tuple[str, str], FormReply] = field(default_factory=dict)
    _known: dict[tuple[str, str], FormReply] = field(default_factory=dict)

    def begin(self, calling: Coroutine[Any, Any, ToolOutput]) -> None:
        """Run it until it ends or `cancel` is called."""
        self._task = asyncio.create_task(calling, name=f"mcp {self.server}: call")
        self._task.add_done_callback(self._end)

    def begin_again(self) -> None:
        """The same is sent once more: what was answered is known."""
        self._known |= self._replies

    def _end(self, task: asyncio.Task[ToolOutput]) -> None:
        for one in self._asked:  # whoever still waits for an answer gets none
            if not one.answer.done():
                one.answer.set_result(None)
        if not task.cancelled():
            task.exception()  # nobody may be there to take it

    def cancel(self) -> None:
        """Its server is told that nobody waits for it any more."""
        if self._task:
            self._task.cancel()

    @property
    def has_ended(self) -> bool:
        """There is nothing to ask for it any more."""
        return self._task is not None and self._task.done()

    async def wait_for_end(self, seconds: float) -> None:
        """As long at most."""
        assert self._task
        await asyncio.wait((self._task,), timeout=seconds)

    async def ask(self, message: str, schema: Mapping[str, Any]) -> FormReply:
        """Put a form to the person, field by field; none that they could not see whole."""
        if not self.can_ask or self.has_ended or self._questions >= MAX_QUESTIONS:
            return LAPSED
        try:
            fields = read_form(schema)
            for one in fields or [None]:
                make_question(self.server, message, one, "")
        except Unaskable:
            return LAPSED
        form = message, stable_json(schema)
        reply = self._known.pop(form, None) or await self._fill_in(message, fields)
        if reply is not LAPSED:
            self._replies[form] = reply
        return reply

    async def _fill_in(self, message: str, fields: list[FormField]) -> FormReply:
        content: dict[str, object] = {}
        for one in fields or [None]:
            fault = ""
            while True:
                answered = await self._put(make_question(self.server, message, one, fault))
                if answered is None or answered.answer is Answer.EXPIRED:
                    return LAPSED
                if answered.answer is Answer.DENY:
                    return DECLINED
                if one is None:
                    is_yes = answered.reason.strip().casefold() == YES.casefold()
                    return FormReply("accept", {}) if is_yes else DECLINED
                if len(answered.reason) > ANSWER_CHARS:
                    fault = f"it has more than {ANSWER_CHARS} characters"
                    continue
                try:
                    content[one.name] = found = one.read(answered.reason)
                except Unclear as error:
                    fault = str(error)
                    continue
                if not (fault := await one.find_fault(found)):
                    break
        return FormReply("accept", content)

    async def _put(self, question: PersonQuestion) -> ApprovalAnswered | None:
        self._questions += 1
        if self._questions > MAX_QUESTIONS or self.has_ended:
            return None
        one = AskedQuestion(question)
        self._asked.append(one)
        self._news.set()
        try:
            async with asyncio.timeout(HOLD_S):
                return await one.answer
        except TimeoutError:
            return None
        finally:  # a withdrawn question is put no more, and its answer is nobody's
            self._asked.remove(one)

    async def wait(self, answered: ApprovalAnswered | None) -> ToolOutput:
        """Its result, or its next question once this answer has been given. Raises what the call
        raises; cancelled, the call is, too.
        """
        assert self._task
        shown, self._shown = self._shown, None
        if answered and shown and not shown.answer.done():
            shown.answer.set_result(answered)
        while not self._task.done():
            if found := next((one for one in self._asked if not one.answer.done()), None):
                self._shown = found
                return ToolOutput("", question=found.question)
            await self._wait_for_news(self._task)
        return self._task.result()

    async def _wait_for_news(self, task: asyncio.Task[ToolOutput]) -> None:
        self._news.clear()
        asking = asyncio.create_task(self._news.wait(), name=f"mcp {self.server}: question")
        try:
            await asyncio.wait((task, asking), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.cancel()
            await asyncio.wait((task,))
            raise
        finally:
            asking.cancel()


@dataclass(slots=True)
class OpenCalls:
    """The calls of a server that wait for an answer, by the keys of `make_key`."""

    store: Store
    clock: Clock
    _calls: dict[str, OpenCall] = field(default_factory=dict)
    _watching: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._calls)

    def take(self, key: str) -> OpenCall | None:
        """It waits no more."""
        if watching := self._watching.pop(key, None):
            watching.cancel()
        return self._calls.pop(key, None)

    def keep(self, key: str, opened: OpenCall) -> None:
        """It has asked, and waits."""
        self._calls[key] = opened
        watch = self._watch(key, opened)
        self._watching[key] = asyncio.create_task(watch, name=f"mcp {opened.server}: open call")

    def abandon(self, key: str) -> None:
        """It will get no answer."""
        if opened := self.take(key):
            opened.cancel()

    def end_all_but(self, tools: Collection[str]) -> None:
        """What is no tool of the server's any more goes on no more."""
        for opened in self._calls.values():
            if opened.tool not in tools:
                opened.cancel()

    def end_all(self) -> list[str]:
        """Their keys."""
        keys = list(self._calls)
        for key in keys:
            self.abandon(key)
        return keys

    async def lapse(self, keys: Collection[str]) -> None:
        """What was asked for them waits no more, and their turns go on."""
        for key in keys:
            with suppress(StoreUnavailable):
                await self._look(key, has_ended=True)

    async def _watch(self, key: str, opened: OpenCall) -> None:
        """A question of a call that has ended lapses, and a call of a turn that has ended ends."""
        while self._calls.get(key) is opened:
            with suppress(StoreUnavailable):
                if await self._look(key, has_ended=opened.has_ended):
                    del self._calls[key], self._watching[key]
                    opened.cancel()
                    return
            if opened.has_ended:
                await asyncio.sleep(LOOK_EVERY_S)
            else:
                await opened.wait_for_end(LOOK_EVERY_S)

    async def _look(self, key: str, *, has_ended: bool) -> bool:
        """Its turn has ended. Of a call that has, the question is as if its time were over."""
        turn_id, _, call_id = key.partition(" ")
        now = self.clock.now()

        def find(tx: Tx) -> ApprovalRow | None:
            asked = tx.get_approval(turn_id, call_id)
            return asked if asked and asked.state == "pending" and asked.expires > now else None

        def lapse(tx: Tx) -> None:
            if asked := find(tx):
                tx.put_approval(replace(asked, expires=now))

        turn, asked = await self.store.read(lambda tx: (tx.get_turn(turn_id), find(tx)))
        if has_ended and asked:
            await self.store.write(lapse)
        return turn is not None and turn.ended_at is not None
