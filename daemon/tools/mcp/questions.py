"""What an MCP server asks a person back while a call runs (elicitation): its form as questions, and
what a person says as its values (G2).
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Literal

from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.tools.base import PersonQuestion
from daemon.tools.mcp.tools import sanitize_line, stable_json

MAX_FIELDS, FORM_CHARS, MAX_DEPTH = 6, 10_000, 12
MAX_OPTIONS, BUTTON_CHARS = 4, 60
MESSAGE_CHARS, LIST_CHARS, OPTION_CHARS, FAULT_CHARS = 1000, 300, 150, 150
YES, NO = "Yes", "No"
WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
DECIMAL = re.compile(r"[+-]?\d+[.,]\d+", re.ASCII)
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)


@value
class FormReply:
    """What a server is told: `content` by the names of the fields."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, object] | None = None


DECLINED, LAPSED = FormReply("decline"), FormReply("cancel")
Ask = Callable[[str, Mapping[str, Any]], Awaitable[FormReply]]
"""Puts a message with a form's schema to the person whose call it is."""


async def ask_nobody(_message: str, _schema: Mapping[str, Any]) -> FormReply:
    """Where there is nobody to ask: nobody has said no."""
    return LAPSED


class Unaskable(AidaemonError):
    """The form cannot be put to a person as it is."""


class Unclear(AidaemonError):
    """What a person said may mean two things."""


@value
class FormField:
    """One value that is asked for. `options` are its values, as they are shown."""

    name: str
    schema: Mapping[str, Any]
    title: str
    options: Mapping[str, object]

    def read(self, said: str) -> object:
        """The value that these words stand for; other words as they are. Raises Unclear."""
        text, kind = said.strip(), self.schema.get("type")
        if kind == "array":
            return [self._choose(one.strip()) for one in text.split(",") if one.strip()]
        found = self._choose(text)
        if found is not text or kind not in ("integer", "number"):
            return found
        return _read_number(text)

    def _choose(self, text: str) -> object:
        """The exact words go before the same ones in other letters, what is shown before values."""
        values = {str(one): one for one in self.options.values()}
        for known in (self.options, values):
            if text in known:
                return known[text]
            near = [one for shown, one in known.items() if shown.casefold() == text.casefold()]
            if len(near) > 1:
                raise Unclear(f"{text!r} may be one or the other: write it exactly")
            if near:
                return near[0]
        return text

    async def find_fault(self, found: object) -> str:
        """What its server would not take in it; "" for nothing."""
        from daemon.tools.mcp.misfit import find_misfit  # lazy: jsonschema, 60 ms

        misfit = await find_misfit(stable_json(self.schema), json.dumps(found))
        return (misfit or "").removeprefix("$: ")


def _read_number(text: str) -> object:
    """Raises Unclear where a sign may stand between thousands or before decimals."""
    if WHOLE.fullmatch(text):
        return int(text)
    if THOUSANDS.fullmatch(text):
        raise Unclear(f"{text} may be read in two ways: leave out the sign, or add a 0 at its end")
    if not DECIMAL.fullmatch(text):
        return text
    number = Decimal(text.replace(",", "."))
    is_whole = number == number.to_integral_value()
    return int(number) if is_whole else float(number)


def read_form(schema: Mapping[str, Any]) -> list[FormField]:
    """What has to be filled in: the required fields; where there are none, the first six. Raises
    Unaskable for what would have to be cut.
    """
    if not _is_small(schema):
        raise Unaskable(f"its form has more than {FORM_CHARS} characters")
    properties, required = schema.get("properties"), schema.get("required")
    needed = list(required) if isinstance(required, list) else []
    if not isinstance(properties, dict):
        properties = {}
    if any(not isinstance(name, str) or name not in properties for name in needed):
        raise Unaskable("it requires a field that it does not describe")
    if len(needed) > MAX_FIELDS:
        raise Unaskable(f"it requires more than {MAX_FIELDS} fields")
    names = [one for one in properties if one in needed] or list(properties)[:MAX_FIELDS]
    if any(not isinstance(properties[name], dict) for name in names):
        raise Unaskable("a field of it is not described")
    return [_read_field(name, properties[name]) for name in names]


def _is_small(schema: object) -> bool:
    """Counted only so far."""
    left, parts = FORM_CHARS, [(schema, 0)]
    while parts and left >= 0:
        part, depth = parts.pop()
        if depth > MAX_DEPTH or (isinstance(part, int) and part.bit_length() > FORM_CHARS):
            return False
        left -= len(part) if isinstance(part, str | dict | list) else 1
        if isinstance(part, dict | list) and left >= 0:
            inner = [*part, *part.values()] if isinstance(part, dict) else part
            parts += ((one, depth + 1) for one in inner)
    return left >= 0


def _read_field(name: str, schema: Mapping[str, Any]) -> FormField:
    title, about = (_read_text(schema, key) for key in ("title", "description"))
    label = show_whole(": ".join(filter(None, (title or name, about))), LIST_CHARS)
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
        (_read_text(one, "title") or one["const"], one["const"])
        for one in (choices if isinstance(choices, list) else ())
        if isinstance(one, dict) and "const" in one
    ]
    return FormField(name, schema, label, _show(pairs))


def _read_text(schema: Mapping[str, Any], key: str) -> str:
    text = schema.get(key)
    return text if isinstance(text, str) else ""


def _show(pairs: Iterable[tuple[object, object]]) -> dict[str, object]:
    """Raises Unaskable where two would look the same, or one is no single value."""
    options: dict[str, object] = {}
    for name, one in pairs:
        if isinstance(name, dict | list) or isinstance(one, dict | list):
            raise Unaskable("an option of it is no single value")
        shown = show_whole(str(name), OPTION_CHARS)
        if shown in options:
            raise Unaskable(f"two of its options are shown as {shown!r}")
        options[shown] = one
    return options


def show_whole(text: str, most: int) -> str:
    """One line without hidden signs. Raises Unaskable for a longer one: what is cut may be what
    matters.
    """
    shown = sanitize_line(text, 4 * most) if len(text) <= 4 * most else ""
    if len(text) > 4 * most or len(shown) > most:
        raise Unaskable(f"a text of it has more than {most} characters")
    return shown


def make_question(server: str, message: str, one: FormField | None, fault: str) -> PersonQuestion:
    """The question as a person is shown it: whose it is stands before the server's own words.
    Raises Unaskable.
    """
    text = f"The MCP server {server} asks, and reads your answer: "
    text += show_whole(message, MESSAGE_CHARS)
    if one is None:
        return PersonQuestion(text, (YES,))
    text += f" ({one.title})"
    options = tuple(one.options)
    many = one.schema.get("type") == "array"
    is_long = any(len(one) > BUTTON_CHARS for one in options)
    if many or is_long or not 2 <= len(options) <= MAX_OPTIONS:
        listed = show_whole(", ".join(options), LIST_CHARS)
        text += f" One{' or more, with commas,' if many else ''} of: {listed}." * bool(options)
        options = ()
    if fault:
        text += f" It did not take your last answer: {sanitize_line(fault, FAULT_CHARS)}"
    return PersonQuestion(text, options)
