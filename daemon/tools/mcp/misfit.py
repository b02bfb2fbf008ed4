"""Whether a structured result is as its server's schema declares it. Whoever wrote the schema may
have made it take for ever: what is not done in a few steps is done in a process that can be ended.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import SchemaError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from daemon.tools.shell.process import exchange

FITS = """
import json, sys
from jsonschema import Draft202012Validator
from referencing import Registry
schema, records = json.load(sys.stdin)
Draft202012Validator.check_schema(schema)
found = next(Draft202012Validator(schema, registry=Registry()).iter_errors(records), None)
sys.stdout.write("=" + (f"{found.json_path}: {found.message[:300]}" if found else ""))
"""
FITS_S = 3.0
MOST_STEPS, MOST_CHARS = 1_500, 8_000  # 20 ms
# One step of these may take for ever.
SLOW = ('"pattern', '"unevaluated', '"uniqueItems', '"$id', '"$anchor', '"$dynamic')
BROKEN = (SchemaError, Unresolvable, ArithmeticError, AttributeError, LookupError, TypeError)
Checker = Callable[[str], str]


class TooLong(Exception):
    """More steps than are done here."""


async def find_misfit(schema: str, records: str) -> str | None:
    """The first fault, with its place; "" for none, None where that cannot be told."""
    if len(schema) + len(records) <= MOST_CHARS and not any(word in schema for word in SLOW):
        with suppress(TooLong, RecursionError, ValueError, *BROKEN):
            return _make_checker(schema)(records)
    argv, data = (sys.executable, "-I", "-c", FITS), f"[{schema}, {records}]".encode()
    said = (await exchange(argv, data, FITS_S) or b"").decode("utf-8", "replace")
    return said[1:] if said.startswith("=") else None


@lru_cache(maxsize=64)
def _make_checker(schema: str) -> Checker:
    """Raises what a schema that is none raises; the checker TooLong, too."""
    left = 0

    def count(check: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
        def counted(validator: object, said: object, *rest: object) -> Iterator[ValidationError]:
            nonlocal left
            left -= 1 + (len(said) if isinstance(said, list | dict) else 0)
            if left < 0:
                raise TooLong
            yield from check(validator, said, *rest) or ()

        return counted

    rules = {name: count(check) for name, check in Draft202012Validator.VALIDATORS.items()}
    parsed = json.loads(schema)
    Draft202012Validator.check_schema(parsed)
    validator = extend(Draft202012Validator, rules)(parsed, registry=Registry())

    def check(records: str) -> str:
        nonlocal left
        left = MOST_STEPS
        found = next(validator.iter_errors(json.loads(records)), None)
        return f"{found.json_path}: {found.message[:300]}" if found else ""

    return check
