"""Programs that run other programs, or words as code: a person is told so, for the first word then says little.

A shell line taken apart, to show what it does and to judge it. The sandbox is the boundary; this is for people.

The tree of a shell line, by tree-sitter. Only this file needs its packages; it is imported when the first line is read.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import cast

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from daemon import addons as plugins
from daemon.core import value
from daemon.core.errors import ConfigError

RUNS_PROGRAM = "runs another program"
RUNS_CODE = "runs words as code"
PROGRAM_RUNNERS = (
    "env", "nohup", "nice", "ionice", "timeout", "time", "setsid", "stdbuf", "watch", "strace", "command", "builtin", "exec",
    "coproc", "xargs", "parallel", "busybox", "chroot", "unshare", "nsenter",
)  # fmt: skip
CODE_RUNNERS = (
    "eval", "source", ".", "trap", "alias", "bash", "sh", "dash", "zsh", "ksh", "fish", "python", "python3", "perl", "ruby",
    "node", "php", "lua", "awk", "gawk", "mawk", "sed", "make", "npm", "npx", "uvx", "pip",
)  # fmt: skip
WRAPPERS: Mapping[str, str] = {
    **dict.fromkeys(PROGRAM_RUNNERS, RUNS_PROGRAM),
    **dict.fromkeys(CODE_RUNNERS, RUNS_CODE),
    **dict.fromkeys(
        ("sudo", "doas", "su", "pkexec", "runuser"), "runs another program as another user"
    ),
    **dict.fromkeys(
        ("ssh", "docker", "podman", "crontab", "at", "systemctl"),
        "runs programs elsewhere or later",
    ),
}
BY_ARGUMENT: Mapping[str, Mapping[str, str]] = {
    "find": {
        **dict.fromkeys(("-exec", "-execdir", "-ok", "-okdir"), RUNS_PROGRAM),
        "-delete": "deletes what it finds",
    },
    "fd": dict.fromkeys(("-x", "-X", "--exec", "--exec-batch"), RUNS_PROGRAM),
    "rg": {"--pre": RUNS_PROGRAM},
    "sort": {
        "--compress-program": RUNS_PROGRAM,
        "-o": "writes a file",
        "--output": "writes a file",
    },
    "tar": dict.fromkeys(
        ("-I", "--to-command", "--checkpoint-action", "--use-compress-program"), RUNS_PROGRAM
    ),
    "git": dict.fromkeys(("-c", "--ext-diff", "--exec-path", "--upload-pack"), RUNS_PROGRAM),
}


def explain_wrappers(words: Sequence[str]) -> tuple[str, ...]:
    """What to say of a command of these words, as they are written; assignments may stand before the program."""
    named = [
        word.strip("'\"")
        for word in words
        if "=" not in word.partition("/")[0] or word.startswith("-")
    ]
    if not named:
        return ()
    program = PurePosixPath(named[0].replace("\\", "")).name
    found = [f"{program}: {WRAPPERS[program]}"] if program in WRAPPERS else []
    if any(sign in named[0] for sign in "$`\\{*?"):
        found.append("which program runs is decided only then")
    arguments = BY_ARGUMENT.get(program, {})
    flags = (word.partition("=")[0] for word in named)
    return (*found, *(f"{flag}: {arguments[flag]}" for flag in flags if flag in arguments))


MAX_LINE_BYTES = 20_000
MAX_COMMANDS = 40


@value
class SimpleCommand:
    """One simple command with its redirections; `remarks` say which of its words run another program."""

    text: str
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        """On one line, whatever is in it."""
        return "".join(
            [" ⏎ ".join(self.text.splitlines()), *(f"   [{remark}]" for remark in self.remarks)]
        )


@value
class ParsedLine:
    """What a line holds. `plain` are its words, if it is one simple command that needs no shell; None otherwise."""

    commands: tuple[SimpleCommand, ...] = ()
    plain: tuple[str, ...] | None = None
    invalid: bool = False

    def __str__(self) -> str:
        """For a person: a line per command, in the order in which they stand; empty when there is nothing to add."""
        if self.invalid:
            return "this line could not be parsed: read it as it stands, and say no if in doubt"
        if self.plain is not None and not any(piece.remarks for piece in self.commands):
            return ""
        more = (
            [f"- and {len(self.commands) - MAX_COMMANDS} more"]
            if len(self.commands) > MAX_COMMANDS
            else []
        )
        return "\n".join(
            ["it runs:", *(f"- {piece}" for piece in self.commands[:MAX_COMMANDS]), *more]
        )


INVALID = ParsedLine(invalid=True)


def parse_line(line: str) -> ParsedLine:
    """Take it apart. What cannot be parsed is broken, and never plain."""
    try:
        read = cast(Callable[[str], ParsedLine], plugins.load_addon("shells", "bash"))
    except ConfigError:
        return INVALID
    return read(line)


BARE = re.compile(r"(?!~)(?:(?![:=]~)[\w./,:=@%+^~-])+")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
NOT_IN_QUOTES = re.compile(r'["\\$`]')
COMMAND_NODES = frozenset(
    (
        "command",
        "declaration_command",
        "unset_command",
        "test_command",
        "function_definition",
        "variable_assignment",
    )
)
REDIRECT_NODES = frozenset(("file_redirect", "heredoc_redirect", "herestring_redirect"))


def parse_tree(line: str) -> ParsedLine:
    """What the line does, command by command, the inner ones too; and its words, if it is one plain command."""
    source = line.encode("utf-8", "replace")
    if len(source) > MAX_LINE_BYTES:
        return INVALID
    root = Parser(Language(tree_sitter_bash.language())).parse(source).root_node
    if root.has_error:
        return INVALID
    return ParsedLine(tuple(_find_commands(root)), _plain_words(root, line))


def _find_commands(root: Node) -> Iterator[SimpleCommand]:
    for node in _walk(root):
        if node.type in COMMAND_NODES and not _is_prefix(node):
            redirects = _find_redirects(node)
            words = [_text(child) for child in node.named_children]
            head = f"define {words[0]}()" if node.type == "function_definition" else _text(node)
            yield SimpleCommand(
                " ".join([head, *redirects]),
                explain_wrappers(words) if node.type == "command" else (),
            )
        elif node.type == "redirected_statement" and _body(node).type != "command":
            yield SimpleCommand(f"(redirected: {' '.join(_redirects_of(node))})")


def _walk(root: Node) -> Iterator[Node]:
    """Every node, in the order of the line; by hand, for a line may be nested deeper than Python goes."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.named_children)


def _is_prefix(node: Node) -> bool:
    """An assignment that stands before a command, or in a declaration, is shown with it."""
    parent = node.parent
    return (
        node.type == "variable_assignment" and parent is not None and parent.type in COMMAND_NODES
    )


def _find_redirects(node: Node) -> list[str]:
    parent = node.parent
    if parent is None or parent.type != "redirected_statement" or _body(parent) != node:
        return []
    return _redirects_of(parent)


def _redirects_of(node: Node) -> list[str]:
    return [_text(child) for child in node.named_children if child.type in REDIRECT_NODES]


def _body(node: Node) -> Node:
    return node.child_by_field_name("body") or node


def _plain_words(root: Node, line: str) -> tuple[str, ...] | None:
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
            return _join([_word(child) for child in node.children], text)
        case _:
            return None


def _join(parts: list[str | None], text: str) -> str | None:
    known = [part for part in parts if part is not None]
    return "".join(known) if len(known) == len(parts) and not text.startswith("~") else None


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
