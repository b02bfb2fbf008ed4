"""Values and calls in a model's text that are nearly JSON: as Python or JavaScript writes them."""

import ast
import re
from collections.abc import Iterator
from json import JSONDecoder

DECODER = JSONDecoder(strict=False)
# A text in quotes, one without an end, or a bracket.
PIECE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\"'()\[\]{}]", re.DOTALL)
# NAME(, print(NAME(, found = NAME(, [NAME(
CALL_START = re.compile(r"(?:[A-Za-z_]\w{0,40} ?= ?)?\[?[A-Za-z_][\w.]{0,100}(?=\()")
WORDS = {"true": True, "false": False, "null": None}
# What Gemini and OpenAI call the place of all tools; Llama writes NAME.call(.
NAMESPACES = ("default_api", "functions")
ERRORS = (ValueError, SyntaxError, RecursionError, MemoryError, TypeError)


def read_value(text: str, at: int) -> tuple[object, int] | None:
    """(value, where it ends) of JSON; of Python's or JavaScript's spelling, where it is in
    brackets. None for anything else.
    """
    try:
        return DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        end = _find_end(text, at) if text[at : at + 1] in ("{", "[") else 0
    try:
        return (_to_value(_parse(text[at:end])), end) if end else None
    except ERRORS:
        return None


def read_python(text: str, at: int) -> tuple[list[tuple[str, dict[str, object]]], int] | None:
    """(name and arguments of each call, where they end); `print(found)` is no call. None for what
    is no plain call.
    """
    if not (start := CALL_START.match(text, at)):
        return None
    begins = at + start[0].index("=") + 1 if "=" in start[0] else at
    opens = text.find("[", begins, start.end())
    if not (end := _find_end(text, opens if opens >= 0 else start.end())):
        return None
    try:
        tree = _parse(text[begins:end].strip())
        nodes = tree.elts if isinstance(tree, ast.List) else [tree]
        return [call for node in nodes for call in _list_calls(node)], end
    except ERRORS:
        return None


def _parse(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


def _find_end(text: str, at: int) -> int:
    """Where the bracket that opens here is closed; 0 where it is not."""
    depth = 0
    for piece in PIECE.finditer(text, at):
        if piece[0] in "([{":
            depth += 1
        elif piece[0] in ")]}":
            depth -= 1
            if depth == 0:
                return piece.end()
        elif len(piece[0]) == 1:
            return 0
    return 0


def _to_value(node: ast.expr) -> object:
    """Raises ValueError for what is computed."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as found):
            return found
        case ast.Name(id=name) if name in WORDS:
            return WORDS[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as found)):
            return -found
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_to_value(one) for one in parts]
        case ast.Dict(keys=keys, values=parts):
            return {_to_key(key): _to_value(one) for key, one in zip(keys, parts, strict=True)}
        case _:
            raise ValueError(node)


def _to_key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError(node)


def _list_calls(node: ast.expr) -> Iterator[tuple[str, dict[str, object]]]:
    """Raises ValueError for what is no call with named arguments, or with one object of them."""
    if not isinstance(node, ast.Call):
        raise ValueError(node)
    match node.func:
        case ast.Name(id="print") if not node.keywords:
            for one in node.args:
                if not isinstance(one, ast.Name):
                    yield from _list_calls(one)
            return
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="call"):
            pass
        case ast.Attribute(value=ast.Name(id=place), attr=name) if place in NAMESPACES:
            pass
        case _:
            raise ValueError(node)
    given = [_to_value(one) for one in node.args]
    arguments = {str(one.arg): _to_value(one.value) for one in node.keywords if one.arg}
    if given and not arguments and len(given) == 1 and isinstance(given[0], dict):
        arguments = given[0]
    elif given or len(arguments) != len(node.keywords):
        raise ValueError(node)
    yield name, arguments
