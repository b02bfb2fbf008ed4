"""Text of a server made fit for a model: nothing hidden in it, and not too much of it (A6 of the reference)."""

import re
from collections.abc import Mapping

from daemon.core.errors import AidaemonError
from daemon.tools.results import head_and_tail, printable

# What is in a text without being seen: soft and zero-width marks, fillers, direction overrides, variation selectors, tags.
HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
BREAKS = re.compile("[\u0085\u2028\u2029]")
DESCRIPTION_CHARS = 2000
RESULT_CHARS = 20_000
SCHEMA_CHARS = 32_000
DEEPEST = 24
TOLD = ("description", "title", "$comment")
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


class UnfitSchema(AidaemonError):
    """The tool describes its arguments in a way that no model can be shown."""


def clean(text: str, limit: int) -> str:
    """Without control and hidden characters; of a longer text the beginning and the end."""
    return HIDDEN.sub("", printable(BREAKS.sub("\n", head_and_tail(text, limit))))


def one_line(text: str, limit: int = 200) -> str:
    """For logs and notices."""
    text = " ".join(clean(text[: 4 * limit], 4 * limit).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clean_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema as a model is shown it. A default that is text is left out: the server fills it in itself, and a model would
    take it for advice. Raises UnfitSchema where a name or a choice has hidden characters, for these must stay as they are.
    """
    shown = _table(schema, 0)
    return {**shown, "type": "object", "properties": shown.get("properties", {})}


def _table(schema: Mapping[str, object], depth: int, *, of_names: bool = False) -> dict[str, object]:
    """A schema; or, with `of_names`, schemas by names that the server has chosen."""
    kept = {name: value for name, value in schema.items() if of_names or not _advises(name, value)}
    return {_exact(name): _cleaned(value, "" if of_names else name, depth + 1) for name, value in kept.items()}


def _cleaned(value: object, key: str, depth: int) -> object:
    if depth > DEEPEST:
        raise UnfitSchema("its arguments are nested too deeply")
    match value:
        case str():
            return clean(value, DESCRIPTION_CHARS) if key in TOLD else _exact(value)
        case dict():
            return _table(value, depth, of_names=key in NAMED)
        case list():
            return [_cleaned(inner, "", depth + 1) for inner in value]
        case _:
            return value


def _advises(name: str, value: object) -> bool:
    return name == "examples" or (name == "default" and not isinstance(value, bool | int | float))


def _exact(text: str) -> str:
    if HIDDEN.search(text) or printable(text) != text:
        raise UnfitSchema("a name or a choice among its arguments has hidden characters")
    return text
