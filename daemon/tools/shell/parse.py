"""Parses a shell line to show people what it runs, and to find lines that need no shell.

The sandbox is what protects; this explains.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from daemon.core import value

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_LINE_BYTES = 20_000
RUNS_PROGRAM = "runs another program"
RUNS_CODE = "runs words as code"
PROGRAM_RUNNERS = (
    "env", "nohup", "nice", "ionice", "timeout", "time", "setsid", "stdbuf", "watch", "strace",
    "command", "builtin", "exec", "coproc", "xargs", "parallel", "busybox", "chroot", "unshare",
    "nsenter",
)  # fmt: skip
CODE_RUNNERS = (
    "eval", "source", ".", "trap", "alias", "bash", "sh", "dash", "zsh", "ksh", "fish", "python",
    "python3", "perl", "ruby", "node", "php", "lua", "awk", "gawk", "mawk", "sed", "make", "npm",
    "npx", "uvx", "pip",
)  # fmt: skip
WRAPPERS = {
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
WRITES_FILE = "writes a file"
BY_ARGUMENT = {
    "find": {
        **dict.fromkeys(("-exec", "-execdir", "-ok", "-okdir"), RUNS_PROGRAM),
        "-delete": "deletes what it finds",
    },
    "fd": dict.fromkeys(("-x", "-X", "--exec", "--exec-batch"), RUNS_PROGRAM),
    "rg": {"--pre": RUNS_PROGRAM},
    "sort": {
        "--compress-program": RUNS_PROGRAM, "-o": WRITES_FILE, "--output": WRITES_FILE,
    },
    "tar": dict.fromkeys(
        ("-I", "--to-command", "--checkpoint-action", "--use-compress-program"), RUNS_PROGRAM
    ),
    "git": dict.fromkeys(("-c", "--ext-diff", "--exec-path", "--upload-pack"), RUNS_PROGRAM),
}  # fmt: skip
# Plain and quoted words that a shell would not expand; no assignment before them.
PLAIN_LINE = re.compile(
    r"(?![ \t]*\w+\+?=)"
    r"""(?!~)(?:(?<![ \t'"])~|[\w./,@%+^ \t-]|[:=](?!~)|'[^'\n]*'|"[^"\\$`\n]*")+"""
)
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
COMMAND_NODES = (
    "command", "declaration_command", "unset_command", "test_command", "function_definition",
    "variable_assignment",
)  # fmt: skip
REDIRECT_NODES = ("file_redirect", "heredoc_redirect", "herestring_redirect")


@value
class ParsedLine:
    """`commands` are described for people, those inside substitutions too; none where the line
    says it all. `plain` are the words
    of a line that is one simple command and needs no shell, else None.
    """

    commands: tuple[str, ...] = ()
    plain: tuple[str, ...] | None = None
    invalid: bool = False

    def __str__(self) -> str:
        """A line per command, all of them, for the yes is to all; empty when there is nothing to
        add to the line itself.
        """
        if self.invalid:
            return "this line could not be parsed: read it as it stands, and say no if in doubt"
        if not self.commands:
            return ""
        return "\n".join(["it runs:", *self.commands])


def explain_wrappers(words: Sequence[str]) -> tuple[str, ...]:
    """Warnings about a command whose first word says little, because it runs something else."""
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


def parse_line(line: str) -> ParsedLine:
    """Find its commands. A line that cannot be parsed is invalid, and never plain."""
    source = line.encode("utf-8", "replace")
    if len(source) > MAX_LINE_BYTES:
        return ParsedLine(invalid=True)
    import tree_sitter_bash  # lazy: 15 ms
    from tree_sitter import Language, Parser  # lazy: 15 ms

    root = Parser(Language(tree_sitter_bash.language())).parse(source).root_node
    if root.has_error:
        return ParsedLine(invalid=True)
    found = list(_find_commands(root))
    lines = (
        "".join(["- ", " ⏎ ".join(text.splitlines()), *(f"   [{one}]" for one in remarks)])
        for text, remarks in found
    )
    is_command = root.child_count == 1 and root.children[0].type == "command"
    if is_command and PLAIN_LINE.fullmatch(line) and not CONTROL.search(line):
        has_remarks = any(remarks for _, remarks in found)
        return ParsedLine(tuple(lines) * has_remarks, tuple(shlex.split(line)))
    return ParsedLine(tuple(lines))


def _find_commands(root: "Node") -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each command and the warnings about it, in order; no recursion, for lines can nest deeply."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.named_children)
        parent = node.parent
        if node.type == "redirected_statement" and _body(node).type != "command":
            yield f"(redirected: {' '.join(_redirects_of(node))})", ()
        # An assignment before a command, or in a declaration, is shown with it.
        if node.type not in COMMAND_NODES or (
            node.type == "variable_assignment" and parent and parent.type in COMMAND_NODES
        ):
            continue
        words = [_text(child) for child in node.named_children]
        head = f"define {words[0]}()" if node.type == "function_definition" else _text(node)
        if parent and parent.type == "redirected_statement" and _body(parent) == node:
            head = " ".join([head, *_redirects_of(parent)])
        yield head, explain_wrappers(words) if node.type == "command" else ()


def _redirects_of(node: "Node") -> list[str]:
    return [_text(child) for child in node.named_children if child.type in REDIRECT_NODES]


def _body(node: "Node") -> "Node":
    return node.child_by_field_name("body") or node


def _text(node: "Node") -> str:
    return (node.text or b"").decode("utf-8", "replace")


OPERATORS = "();<>|&\n"


def split_words(line: str) -> list[str]:
    """Words and operators. Raises ValueError."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=OPERATORS)
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    return list(lexer)
