"""The tree of a shell line, by tree-sitter. Only this file needs its packages; it is imported when the first line is read."""

import re
import shlex
from collections.abc import Iterator

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from daemon.tools.shells.parsing import LONGEST, UNREADABLE, Piece, Reading
from daemon.tools.shells.wrappers import remarks

BARE = re.compile(r"(?!~)(?:(?![:=]~)[\w./,:=@%+^~-])+")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
NOT_IN_QUOTES = re.compile(r'["\\$`]')
SHOWN = frozenset(
    ("command", "declaration_command", "unset_command", "test_command", "function_definition", "variable_assignment")
)
REDIRECTS = frozenset(("file_redirect", "heredoc_redirect", "herestring_redirect"))


def read(line: str) -> Reading:
    """What the line does, command by command, the inner ones too; and its words, if it is one plain command."""
    source = line.encode("utf-8", "replace")
    if len(source) > LONGEST:
        return UNREADABLE
    root = Parser(Language(tree_sitter_bash.language())).parse(source).root_node
    if root.has_error:
        return UNREADABLE
    return Reading(tuple(_pieces(root)), _plain(root, line))


def _pieces(root: Node) -> Iterator[Piece]:
    for node in _nodes(root):
        if node.type in SHOWN and not _is_prefix(node):
            redirects = _redirects(node)
            words = [_text(child) for child in node.named_children]
            head = f"define {words[0]}()" if node.type == "function_definition" else _text(node)
            yield Piece(" ".join([head, *redirects]), remarks(words) if node.type == "command" else ())
        elif node.type == "redirected_statement" and _body(node).type != "command":
            yield Piece(f"(redirected: {' '.join(_own_redirects(node))})")


def _nodes(root: Node) -> Iterator[Node]:
    """Every node, in the order of the line; by hand, for a line may be nested deeper than Python goes."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.named_children)


def _is_prefix(node: Node) -> bool:
    """An assignment that stands before a command, or in a declaration, is shown with it."""
    parent = node.parent
    return node.type == "variable_assignment" and parent is not None and parent.type in SHOWN


def _redirects(node: Node) -> list[str]:
    parent = node.parent
    if parent is None or parent.type != "redirected_statement" or _body(parent) != node:
        return []
    return _own_redirects(parent)


def _own_redirects(node: Node) -> list[str]:
    return [_text(child) for child in node.named_children if child.type in REDIRECTS]


def _body(node: Node) -> Node:
    return node.child_by_field_name("body") or node


def _plain(root: Node, line: str) -> tuple[str, ...] | None:
    """The words, if the line is one command of plain and quoted words and nothing else; two ways of reading must agree."""
    if root.child_count != 1 or CONTROL.search(line) or _text(root).strip() != line.strip():
        return None
    command = root.children[0]
    if command.type != "command" or _text(command) != line.strip():
        return None
    words = [_word(child) for child in command.children]
    if any(word is None for word in words) or not words:
        return None
    told = tuple(word for word in words if word is not None)
    try:
        return told if tuple(shlex.split(line)) == told else None
    except ValueError:
        return None


def _word(node: Node) -> str | None:
    """What the shell would make of a word that it need not think about."""
    text = _text(node)
    match node.type:
        case "command_name" if node.child_count == 1:
            return _word(node.children[0])
        case "word" | "number":
            return text if BARE.fullmatch(text) else None
        case "raw_string":
            return text[1:-1]
        case "string":
            return None if NOT_IN_QUOTES.search(text[1:-1]) else text[1:-1]
        case "concatenation":
            return _joined([_word(child) for child in node.children], text)
        case _:
            return None


def _joined(parts: list[str | None], text: str) -> str | None:
    known = [part for part in parts if part is not None]
    return "".join(known) if len(known) == len(parts) and not text.startswith("~") else None


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
