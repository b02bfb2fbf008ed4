"""What an MCP server asks a person back while a call runs (elicitation): its form as questions, one
after the other, and the call that waits for their answers (G2).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from daemon.core import value
from daemon.core.events import ApprovalAnswered
from daemon.core.trust import ANSWER_CHARS, Answer
from daemon.tools.base import PersonQuestion, ToolOutput
from daemon.tools.mcp.tools import sanitize_line, stable_json

MAX_FIELDS, MAX_QUESTIONS = 6, 12
MAX_OPTIONS, OPTION_CHARS, MESSAGE_CHARS, LIST_CHARS = 4, 60, 300, 150
HOLD_S = 24 * 3600.0
YES, NO = "Yes", "No"


@value
class FormReply:
    """What a server is told: `content` by the names of the fields."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, object] | None = None


DECLINED, LAPSED = FormReply("decline"), FormReply("cancel")
Ask = Callable[[str, Mapping[str, Any]], Awaitable[FormReply]]
"""Puts a message with a form's schema to the person whose call it is."""


async def decline(_message: str, _schema: Mapping[str, Any]) -> FormReply:
    """Where there is nobody to ask."""
    return DECLINED


@value
class FormField:
    """One value that is asked for. `options` are its values, as they are shown."""

    name: str
    schema: Mapping[str, Any]
    title: str
    options: Mapping[str, object]

    def read(self, said: str) -> object:
        """The value that these words stand for, as well as can be told."""
        text = said.strip()
        known = {shown.casefold(): one for shown, one in self.options.items()}
        known = {**{str(one).casefold(): one for one in self.options.values()}, **known}
        if self.schema.get("type") == "array":
            parts = [one.strip() for one in text.split(",") if one.strip()]
            return [known.get(one.casefold(), one) for one in parts]
        if text.casefold() in known:
            return known[text.casefold()]
        if self.schema.get("type") in ("integer", "number"):
            try:
                number = float(text.replace(",", "."))
                return int(number) if number.is_integer() else number
            except (ValueError, OverflowError):
                return text
        return text

    async def find_fault(self, found: object) -> str:
        """What its server would not take in it; "" for nothing."""
        from daemon.tools.mcp.misfit import find_misfit  # lazy: jsonschema, 60 ms

        misfit = await find_misfit(stable_json(self.schema), json.dumps(found))
        return (misfit or "").removeprefix("$: ")


def read_form(schema: Mapping[str, Any]) -> list[FormField]:
    """What has to be filled in: the required fields; where there are none, all. At most six."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return []
    needed = [one for one in properties if isinstance(required, list) and one in required]
    return [
        _read_field(name, properties[name])
        for name in (needed or list(properties))[:MAX_FIELDS]
        if isinstance(properties[name], dict)
    ]


def _read_field(name: str, schema: Mapping[str, Any]) -> FormField:
    title, about = (str(schema.get(key) or "") for key in ("title", "description"))
    label = sanitize_line(": ".join(filter(None, (title or name, about))), LIST_CHARS)
    if schema.get("type") == "boolean":
        return FormField(name, schema, label, {YES: True, NO: False})
    items = schema.get("items")
    source = items if isinstance(items, dict) else schema
    values, names = source.get("enum"), source.get("enumNames")
    if isinstance(values, list):
        fits = isinstance(names, list) and len(names) == len(values)
        shown = names if fits and isinstance(names, list) else values
        return FormField(name, schema, label, _show(zip(shown, values, strict=True)))
    choices = source.get("oneOf") or source.get("anyOf")
    pairs = [
        (one.get("title") or one["const"], one["const"])
        for one in (choices if isinstance(choices, list) else ())
        if isinstance(one, dict) and "const" in one
    ]
    return FormField(name, schema, label, _show(pairs))


def _show(pairs: Any) -> dict[str, object]:
    return {sanitize_line(str(shown), OPTION_CHARS): one for shown, one in pairs}


def make_question(server: str, message: str, one: FormField | None, fault: str) -> PersonQuestion:
    """The question as a person is shown it: whose it is stands before the server's own words."""
    text = f"The MCP server {server} asks, and reads your answer: "
    text += sanitize_line(message, MESSAGE_CHARS)
    if one is None:
        return PersonQuestion(text, (YES,))
    text += f" ({one.title})"
    options = tuple(one.options)
    many = one.schema.get("type") == "array"
    if many or not 2 <= len(options) <= MAX_OPTIONS:
        listed = sanitize_line(", ".join(options), LIST_CHARS)
        text += f" One{' or more, with commas,' if many else ''} of: {listed}." * bool(options)
        options = ()
    if fault:
        text += f" It did not take your last answer: {sanitize_line(fault, LIST_CHARS)}"
    return PersonQuestion(text, options)


@dataclass(slots=True)
class OpenCall:
    """A call in the background. Its questions are answered one by one; whoever waits for it gets
    the next question or its result.
    """

    server: str
    _task: asyncio.Task[ToolOutput] | None = None
    _asked: asyncio.Queue[PersonQuestion] = field(default_factory=asyncio.Queue)
    _answers: asyncio.Queue[ApprovalAnswered | None] = field(default_factory=asyncio.Queue)
    _questions: int = 0

    def begin(self, calling: Coroutine[Any, Any, ToolOutput]) -> None:
        """Run it until it ends or `cancel` is called."""
        self._task = asyncio.create_task(calling, name=f"mcp {self.server}: call")
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[ToolOutput]) -> None:
        self._answers.put_nowait(None)  # whoever still waits for an answer gets none
        if not task.cancelled():
            task.exception()  # nobody may be there to take it

    def cancel(self) -> None:
        """Its server is told that nobody waits for it any more."""
        if self._task:
            self._task.cancel()

    async def ask(self, message: str, schema: Mapping[str, Any]) -> FormReply:
        """Put a form to the person, field by field."""
        content: dict[str, object] = {}
        for one in read_form(schema) or [None]:
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
                content[one.name] = found = one.read(answered.reason)
                if len(answered.reason) > ANSWER_CHARS:
                    fault = f"it has more than {ANSWER_CHARS} characters"
                elif not (fault := await one.find_fault(found)):
                    break
        return FormReply("accept", content)

    async def _put(self, question: PersonQuestion) -> ApprovalAnswered | None:
        self._questions += 1
        if self._questions > MAX_QUESTIONS or (self._task and self._task.done()):
            return None
        self._asked.put_nowait(question)
        try:
            async with asyncio.timeout(HOLD_S):
                return await self._answers.get()
        except TimeoutError:
            return None

    async def wait(self, answered: ApprovalAnswered | None) -> ToolOutput:
        """Its result, or its next question once this answer has been given. Raises what the call
        raises; cancelled, the call is, too.
        """
        assert self._task
        if answered:
            self._answers.put_nowait(answered)
        asking = asyncio.create_task(self._asked.get(), name=f"mcp {self.server}: question")
        try:
            await asyncio.wait((self._task, asking), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.cancel()
            await asyncio.wait((self._task,))
            raise
        finally:
            asking.cancel()
        if self._task.done():
            return self._task.result()
        return ToolOutput("", question=asking.result())
