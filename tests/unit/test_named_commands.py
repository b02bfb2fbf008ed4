"""No message and no document points to a command that does not exist; README's command lines are commands."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.cli.parsing import COMMANDS, parse
from daemon.commands import registry
from daemon.commands.registry import parse_command
from daemon.core.errors import UsageError
from tests.fakes.guide import GUIDE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "daemon" / "docs").glob("*.md"))]
SOURCES = [
    file for part in ("daemon", "channels", "memory") for file in (ROOT / part).rglob("*.py")
]
SHELL_COMMAND = re.compile(r"(?<![\w./-])aidaemon ([a-z]+)(?: ([a-z]+(?:\|[a-z]+)*))?")
CHAT_COMMAND = re.compile(r"(?<![\w./~:\"'*}<>)-])/([a-z]{3,})(?![\w/.-])(?! ?=)")
CHAT_COMMANDS = {*registry.COMMANDS}
# Words of ours that follow the name and are no command.
PROSE = {"again", "that", "uses", "would", "is", "and", "commands", "in", "as", "or"}
OTHER = {
    "pair": "not a command of chats: who sends it is not known yet",
    "quit": "of the terminal",
    "exit": "of the terminal",
    "newbot": "of Telegram's BotFather",
    "setjoingroups": "of Telegram's BotFather",
    "setprivacy": "of Telegram's BotFather",
    "invite": "of Slack",
    "bot": "of Telegram's address",
    "live": "of HTTP",
    "health": "of HTTP",
    "metrics": "of HTTP",
    "reject": "of HTTP",
    "aidaemon": "the slash command that Slack has for us",
}


def list_texts() -> Iterator[tuple[str, str]]:
    """(file, text) of every page and of every string of several words in our code, docstrings too."""
    for page in PAGES:
        yield page.name, page.read_text()
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield file.relative_to(ROOT).as_posix(), node.value


def list_actions(name: str) -> set[str]:
    """The verbs of a command; none where it takes none."""
    try:
        parse([name, "?"])
    except UsageError as error:
        return set(re.findall(r"'([a-z]+)'", str(error).partition("choose from")[2]))
    return set()


ACTIONS = {name: list_actions(name) for name in COMMANDS}


def test_every_shell_command_that_a_text_names_exists():
    wrong = []
    for where, text in list_texts():
        for name, verbs in SHELL_COMMAND.findall(text):
            known = ACTIONS.get(name)
            if name in PROSE or (known is not None and not (known and verbs)):
                continue
            unknown = [one for one in verbs.split("|") if known is None or one not in known]
            if unknown:
                wrong.append(f"{where}: aidaemon {name} {verbs}")
    assert wrong == []


def test_every_chat_command_that_a_text_names_exists():
    wrong = {
        f"{where}: /{name}"
        for where, text in list_texts()
        for name in CHAT_COMMAND.findall(text)
        if name not in CHAT_COMMANDS and name not in OTHER
    }
    assert sorted(wrong) == []


def list_command_lines() -> list[str]:
    """Each `aidaemon ...` of README, in blocks and in sentences; of "a|b" each."""
    inline = re.findall(r"`(aidaemon [^`]+)`", GUIDE.replace("\\|", "|"))
    blocks = re.findall(
        r"^ *\$ (aidaemon .*?|.*\| (aidaemon .*?))(?:  +#.*)?$", GUIDE, re.MULTILINE
    )
    lines: list[str] = []
    for line in (*inline, *(piped or whole for whole, piped in blocks)):
        head, *others = line.replace("[PATH]", "notes.txt").replace("...", "").split("|")
        before, _, _ = head.rpartition(" ")
        first = [head, *others] if " " not in head.removeprefix("aidaemon ") else [head]
        lines += first if len(first) > 1 and not others else [head]
        lines += [one if one.startswith("aidaemon") else f"{before} {one}" for one in others]
    return sorted(set(lines))


@pytest.mark.parametrize("line", list_command_lines())
def test_every_command_line_of_readme_is_understood_by_the_command_line_itself(line: str):
    """Of a name alone, as in the table of commands, also with what it needs."""
    words = shlex.split(line)[1:]
    try:
        parse(words)
    except UsageError as error:
        missing = re.search(r"required: ([A-Z]+(?:, [A-Z]+)*)$", str(error), re.MULTILINE)
        assert missing, error
        parse([*words, *missing[1].split(", ")])


@pytest.mark.parametrize("text", sorted(set(re.findall(r"`(/[a-z]+[^`]*)`", GUIDE))))
def test_every_chat_example_of_readme_is_a_command(text: str):
    parsed = parse_command(text)
    assert parsed or text in ("/v1/events/github",), text
    assert not parsed or parsed[0] in {*CHAT_COMMANDS, *OTHER}


@pytest.mark.parametrize("module", re.findall(r"bin/python -m ([\w.]+)", GUIDE))
def test_every_module_that_readme_starts_is_there(module: str):
    assert (ROOT / module.replace(".", "/")).with_suffix(".py").is_file() or (
        ROOT / module.replace(".", "/") / "__main__.py"
    ).is_file()
