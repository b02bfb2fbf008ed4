"""What pydantic says of a config, in words for the person who wrote the file: which key, what was
found, what was expected.
"""

import json
import re
from collections.abc import Container, Mapping, Sequence
from difflib import get_close_matches
from functools import reduce

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from daemon import VERSION
from daemon.settings.dotted_keys import find_nearest, get_child, list_names

SECRET_KEYS = re.compile(
    r"(^|_)(token|secret|password|api_key|headers|env)$|^tokens$", re.IGNORECASE
)
UNION_TAG_ERRORS = ("union_tag_invalid", "union_tag_not_found")
MAX_VALUE_CHARS = 200
MISSING_KEY_ERRORS = ("missing", "value_error", *UNION_TAG_ERRORS)
URL_PASSWORD = re.compile(r"//(?:[^/@:]*:)?([^/@]*)@")
MASK, MASK_NEW = "***", "*** (new)"
QUERY_SECRET = re.compile(
    r"([?&][\w.-]*(?:auth|key|pass|secret|sig|token)[\w.-]*=)([^&#\s\"']+)", re.IGNORECASE
)
REQUIRED = "a value; the key is required here"
EXPECTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "text in quotes",
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a table"),
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "string_too_short": "text that is not empty",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} at most",
    **dict.fromkeys(("literal_error", "enum"), "{expected}"),
    "union_tag_invalid": "{expected_tags}",
    **dict.fromkeys(("missing", "union_tag_not_found"), REQUIRED),
}


def is_secret_key(key: str) -> bool:
    """The value of this key is nobody's business."""
    return any(SECRET_KEYS.search(part) for part in key.split("."))


def mask_credentials(text: str, known: Container[str] | None = None) -> str:
    """An address, or a text with addresses in it, without the passwords and keys that some of them
    carry.

    Those that are not among the `known` are marked as new.
    """

    def mask(value: str) -> str:
        return MASK if known is None or not value or value in known else MASK_NEW

    text = URL_PASSWORD.sub(lambda found: f"//{mask(found[1])}@", text)
    return QUERY_SECRET.sub(lambda found: found[1] + mask(found[2]), text)


def find_credentials(address: str) -> list[str]:
    """What `without_credentials` leaves out."""
    return [found[1] for found in URL_PASSWORD.finditer(address) if found[1]] + [
        found[2] for found in QUERY_SECRET.finditer(address)
    ]


def explain_errors(
    error: ValidationError, root: type[BaseModel], raw: Mapping[str, object]
) -> list[tuple[str, str]]:
    """(dotted key, what is wrong) of every fault, each key once; `raw` is the file as written,
    nothing expanded.
    """
    found: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        steps = _strip_union_tags(detail["loc"], root, raw)
        steps += _find_named_key(detail, root, steps)
        # A key that is missed counts although nothing is written there.
        is_missed = detail["type"] in MISSING_KEY_ERRORS
        while steps and not is_missed and reduce(get_child, steps, raw) is None:
            steps.pop()
        key, value = ".".join(steps), reduce(get_child, steps, raw)
        found.setdefault(key, _describe(key, value, detail, root))
    return list(found.items())


def _strip_union_tags(
    steps: Sequence[str | int], root: type[BaseModel], raw: Mapping[str, object]
) -> list[str]:
    """Without pydantic's own tags of unions: they are neither written there nor known."""
    kept: list[str] = []
    value: object = raw
    for step in map(str, steps):
        inner = get_child(value, step)
        if inner is not None or step in list_names(root, kept):
            kept.append(step)
            value = inner
    return kept


def _find_named_key(detail: ErrorDetails, root: type[BaseModel], parents: list[str]) -> list[str]:
    """A check across keys speaks for the table; its message begins with the key it is about."""
    if detail["type"] in UNION_TAG_ERRORS:
        return [str(detail.get("ctx", {})["discriminator"]).strip("'")]
    name = detail["msg"].removeprefix("Value error, ").partition(" ")[0]
    is_named = detail["type"] == "value_error" and name in list_names(root, parents)
    return [name] if is_named else []


def _describe(key: str, value: object, detail: ErrorDetails, root: type[BaseModel]) -> str:
    if detail["type"] == "extra_forbidden":
        near = find_nearest(root, key)
        known = ", ".join(list_names(root, key.split(".")[:-1]))
        what = "section" if isinstance(value, Mapping | list) else "key"
        hint = f"did you mean {near}?" if near else f"known here: {known}"
        return f"is a {what} that this version ({VERSION}) does not know; {hint}"
    context = detail.get("ctx", {})
    wanted = detail["msg"].removeprefix("Value error, ")
    if template := EXPECTED.get(detail["type"]):
        wanted = f"expected {template.format(**context)}"
    if value is None:
        return wanted
    expected = context.get("expected", context.get("expected_tags", ""))
    choices = re.findall(r"'([^']+)'", str(expected))
    near = get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    hint = f'; did you mean "{near[0]}"?' if near else ""
    return f"found {_render_value(key, value)}, {wanted}{hint}"


def _render_value(key: str, value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        return "a list of tables"  # there may be tokens in them
    shown = mask_credentials(json.dumps(value, default=str, ensure_ascii=False))
    shown = shown if len(shown) <= MAX_VALUE_CHARS else f"{shown[:MAX_VALUE_CHARS]}..."
    return '"***"' if is_secret_key(key) and value != "" else shown
