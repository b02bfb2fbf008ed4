"""A filter of events without a model (A16): `payload.action == 'opened' and payload.n > 3`.

Comparisons of what stands in the payload, joined by and, or, not. Nothing is called, nothing is
computed; what is missing is None. Pure.
"""

import ast
import operator
from collections.abc import Callable, Mapping

from daemon.core.errors import UsageError

MAX_CHARS, MAX_NODES = 500, 100
COMPARISONS: Mapping[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: lambda a, b: _are_ordered(a, b) and operator.lt(a, b),  # type: ignore[type-var]
    ast.LtE: lambda a, b: _are_ordered(a, b) and operator.le(a, b),  # type: ignore[type-var]
    ast.Gt: lambda a, b: _are_ordered(a, b) and operator.gt(a, b),  # type: ignore[type-var]
    ast.GtE: lambda a, b: _are_ordered(a, b) and operator.ge(a, b),  # type: ignore[type-var]
    ast.In: lambda a, b: _holds(b, a),
    ast.NotIn: lambda a, b: not _holds(b, a),
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
}
EXPECTED = (
    "expected comparisons such as payload.action == 'opened', joined by and, or, not;"
    " payload.a.b and payload['a'][0] look into the payload"
)


class BadFilter(UsageError):
    """A filter that cannot be read; the message says what was expected."""


def _are_ordered(a: object, b: object) -> bool:
    numbers = (int, float)
    return (isinstance(a, numbers) and isinstance(b, numbers)) or (
        isinstance(a, str) and isinstance(b, str)
    )


def _holds(where: object, what: object) -> bool:
    if isinstance(where, str):
        return isinstance(what, str) and what in where
    if isinstance(where, dict):
        return isinstance(what, str) and what in where
    return isinstance(where, list | tuple) and what in where


def parse_filter(text: str) -> ast.expr:
    """The expression, checked. Raises BadFilter."""
    if len(text) > MAX_CHARS:
        raise BadFilter(f"a filter of {len(text)} characters; expected at most {MAX_CHARS}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadFilter(f"{text!r} cannot be read: {EXPECTED}") from error
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise BadFilter(f"{text!r} has more than {MAX_NODES} parts")
    _check(tree, text)
    return tree


def _check(node: ast.expr, text: str) -> None:
    match node:
        case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            inner = parts
        case ast.UnaryOp(op=ast.Not(), operand=part):
            inner = [part]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            inner = []
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in COMPARISONS for op in ops
        ):
            inner = [left, *others]
        case ast.Attribute(value=whole, attr=name) if not name.startswith("__"):
            inner = [whole]
        case ast.Subscript(value=whole, slice=index):
            inner = [whole, index]
        case ast.Name(id="payload" | "true" | "false" | "null"):
            inner = []
        case ast.Constant(value=str() | int() | float() | bool() | None):
            inner = []
        case _:
            part = ast.get_source_segment(text.strip(), node) or "it"
            raise BadFilter(f"{part!r} in {text!r} is not allowed: {EXPECTED}")
    for one in inner:
        _check(one, text)


def matches(text: str, payload: object) -> bool:
    """Whether the payload, as JSON, is meant. Raises BadFilter."""
    return bool(_evaluate(parse_filter(text), payload))


def _evaluate(node: ast.expr, payload: object) -> object:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_evaluate(part, payload) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_evaluate(part, payload) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return not _evaluate(part, payload)
        case ast.UnaryOp(operand=ast.Constant(value=number)):
            return -number  # type: ignore[operator]  # checked
        case ast.Compare(left=left, ops=ops, comparators=others):
            found = [_evaluate(part, payload) for part in (left, *others)]
            pairs = zip(ops, found, found[1:], strict=False)
            return all(COMPARISONS[type(op)](a, b) for op, a, b in pairs)
        case ast.Attribute(value=whole, attr=name):
            return _look(_evaluate(whole, payload), name)
        case ast.Subscript(value=whole, slice=index):
            return _look(_evaluate(whole, payload), _evaluate(index, payload))
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_evaluate(part, payload) for part in parts]
        case ast.Name(id=name):
            return {"true": True, "false": False, "null": None}.get(name, payload)
        case ast.Constant(value=constant):
            return constant
        case _:
            raise BadFilter(EXPECTED)


def _look(whole: object, index: object) -> object:
    if isinstance(whole, dict) and isinstance(index, str):
        return whole.get(index)
    if isinstance(whole, list) and isinstance(index, int) and -len(whole) <= index < len(whole):
        return whole[index]
    return None
