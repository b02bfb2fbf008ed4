"""The command line: common options, and one module per command, imported only when it runs.

A command's module has OPTIONS or ACTIONS, and run(args, paths) -> exit code. Light: --help imports
this and argparse only.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from daemon import VERSION
from daemon.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from daemon.settings.paths import Paths

COMMANDS = {
    "chat": "a conversation in the terminal",
    "run": "the daemon: answers over HTTP on this machine until it is stopped",
    "open": "sign in to the page in a browser: prints a link, and opens it",
    "runs": "list runs, newest first: what was asked, how it ended, what it cost",
    "show": "show one run, step by step: last, its id or the begin of it",
    "replay": "run the rules of the loop again on a recorded run, and say what differs",
    "sessions": "list conversations, the last used first",
    "loop": "repeat one task until it is done: start|stop|pause|resume|status|approve|reject",
    "schedule": "do tasks at their time: list|add|show|run|pause|resume|change|cancel",
    "eval": "run the prompts of a file against an agent, and judge what comes of them",
    "doctor": "check the installation and the config, and say what to do",
    "config": "check the config and the agents, show or change a value, restore a backup",
    "secret": "keep, list and delete passwords and keys: the model never sees them",
    "pair": "print a one-time code with which a person gets access",
    "mcp": "MCP servers: add, test, list and remove them, approve what they have changed",
    "memory": "what is remembered and what was said: search, list, import, forget ...",
    "trust": "whose the files of the workspace are: say which are yours",
    "model": "list, add, download and remove the models that run on this machine",
    "backup": "create, verify or restore a backup of all your data",
}
MODULES = {
    "trust": "terminal.trust",
    "sessions": "terminal.sessions",
    "runs": "review.runs",
    "show": "review.show",
    "replay": "review.replay",
    "eval": "evaluation.command",
}
TERMINAL = "terminal:main"
PASTED = ("NAME", "TURN", "ID")
WORDS = {"help": "--help", "version": "--version"}  # of other programs
NOT_YET = {
    "init": 'write config.toml by hand, a few lines: README tells how ("Models")',
    "service": "let your system start `aidaemon run`",
}


Options = Mapping[str, str | Mapping[str, Any]]
"""By usage, `--flag`, `--option VALUE`, `NAME` or `[NAME]`: its help, or all that argparse takes;
by `|` options of which one may be given."""
Actions = Mapping[str, tuple[str, Options]]
"""The help and the options of each."""
COMMON: Options = {
    "--home DIR": "the data directory (default: $AIDAEMON_HOME, else ~/.aidaemon)",
    "--config FILE": "the config file (default: config.toml in the home directory)",
    "--debug": "print a traceback of errors",
}
ANSWER_OPTIONS: Options = {
    "|": {
        "--yes": "answer every question with yes, once; raise a run's budget once",
        "--deny-all": "answer every question with no",
    }
}


class RaisingParser(argparse.ArgumentParser):
    """Raises UsageError, so that every wrong command line ends the same way."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def strip_pasted(text: str) -> str:
    """A name or an id without the blanks and quotes that were copied with it."""
    return text.strip(" \t\n'\"`")


def count(most: int, text: str) -> int:
    """How many of something are wanted."""
    if not (text.isascii() and text.strip().isdigit() and 1 <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
    return int(text)


def add_options(parser: argparse._ActionsContainer, options: Options) -> None:
    """Add options by their usage."""
    for usage, about in options.items():
        name, _, metavar = usage.strip("[]").partition(" ")
        given: dict[str, Any] = {"help": about} if isinstance(about, str) else dict(about)
        if name == "|":
            add_options(parser.add_mutually_exclusive_group(), given)
            continue
        if not name.startswith("-"):
            if name in PASTED:
                given["type"] = strip_pasted
            name, metavar = name.lower(), name
        if metavar:
            given["metavar"] = metavar
        elif "choices" not in given:
            given["action"] = "store_true"
        if usage.startswith("["):
            given.setdefault("nargs", "?")
        parser.add_argument(*name.split(","), **given)


def parse(words: Sequence[str]) -> Callable[[], int]:
    """The command, ready to run; without one the chat, in a terminal. Raises UsageError, SystemExit
    after --help.
    """
    _, rest = _common_parser().parse_known_args(words)
    if not rest and sys.stdin.isatty() and sys.stdout.isatty():
        rest = ["chat"]
    if rest in [[word] for word in WORDS]:
        rest = [WORDS[rest[0]]]
    if not rest or rest[0].startswith("-"):
        _front_parser().parse_args(rest or ["--help"])
    name = rest[0]
    _check_command(name)
    command = import_module(f"daemon.cli.{MODULES.get(name, name)}")
    parser = RaisingParser(prog=f"aidaemon {name}", description=COMMANDS[name], allow_abbrev=False)
    add_options(parser, {**COMMON, **getattr(command, "OPTIONS", {})})
    parsers = dict[str, argparse.ArgumentParser]()
    if actions := getattr(command, "ACTIONS", None):
        verbs = parser.add_subparsers(dest="action", required=True, metavar="|".join(actions))
        for action, (about, options) in actions.items():
            parsers[action] = verbs.add_parser(action, help=about, allow_abbrev=False)
            add_options(parsers[action], options)
    given, after = rest[1:], None
    if "--" in given and given[0] in getattr(command, "TAKES_COMMAND", ()):
        at = given.index("--")  # another program's words: none of them is an option of ours
        given, after = given[:at], given[at + 1 :]
    args, unknown = parser.parse_known_args(given)
    if unknown:
        _refuse(unknown, parsers.get(getattr(args, "action", ""), parser))
    if after is not None:
        args.command = after
    paths = parse_paths(words[: len(words) - len(after or ())])
    return partial(_run_in_zone, command.run, args, paths)


def _refuse(unknown: Sequence[str], parser: argparse.ArgumentParser) -> NoReturn:
    """Raises UsageError for words that the parser of their command does not know; it shows none of
    them but the name of an option, for they may be a password.
    """
    from daemon.settings.dotted_keys import suggest  # lazy: for this message only

    wrong = next((one.partition("=")[0] for one in unknown if one.startswith("-")), "")
    what = f"there is no option {wrong!r}{suggest(wrong, parser._option_string_actions)}"
    if not wrong:
        what = "a word too many; a text of several words stands in quotes"
    raise UsageError(f"{what}\n{parser.format_usage().rstrip()}")


def _run_in_zone(
    run: Callable[[argparse.Namespace, "Paths"], int], args: argparse.Namespace, paths: "Paths"
) -> int:
    """Run it; the times that it prints are those of the owner's zone, as the daemon's are."""
    from daemon.core.clock import set_timezone  # lazy: --help does without

    set_timezone(_read_zone(paths.config))
    return run(args, paths)


def _read_zone(config: "Path") -> str:
    """`[general] timezone`; "" where it cannot be used, which whoever reads the config reports."""
    import tomllib  # lazy: --help does without
    from zoneinfo import ZoneInfo  # lazy: --help does without

    try:
        general = tomllib.loads(config.read_bytes().decode("utf-8-sig")).get("general")
        name = general.get("timezone") if isinstance(general, dict) else ""
        return ZoneInfo(name).key if isinstance(name, str) and name else ""
    except (OSError, ValueError, LookupError):
        return ""


async def send_command(paths: "Paths", words: str) -> str:
    """The reply to a chat command of the owner's, at the terminal."""
    from daemon.app.connect import connect  # lazy: brings the whole daemon

    async with connect(paths) as opened:
        return (await opened.client.send(TERMINAL, words, stream=False)).reply


def parse_paths(words: Sequence[str]) -> "Paths":
    """The paths that the command line gives. Raises UsageError."""
    from daemon.settings.paths import resolve_paths  # lazy: --help does without

    common, _ = _common_parser().parse_known_args(words)
    return resolve_paths(common.home, common.config)


def _common_parser() -> RaisingParser:
    """For the options that every command takes, before or after its name."""
    parser = RaisingParser(prog="aidaemon", add_help=False, allow_abbrev=False)
    add_options(parser, COMMON)
    return parser


def _check_command(name: str) -> None:
    if name in NOT_YET:
        raise UsageError(
            f"{name!r} is not in this version ({VERSION}) yet; until then: {NOT_YET[name]}"
        )
    if name not in COMMANDS:
        from daemon.settings.dotted_keys import suggest  # lazy: for this message only

        hint = suggest(name, COMMANDS) or f"; commands: {', '.join(COMMANDS)}"
        raise UsageError(f"there is no command {name!r}{hint}")


def _front_parser() -> RaisingParser:
    width = max(map(len, COMMANDS)) + 2
    lines = "\n".join(f"  {name:<{width}}{text}" for name, text in COMMANDS.items())
    parser = RaisingParser(
        prog="aidaemon",
        usage="aidaemon [COMMAND] [--home DIR] [--config FILE] ...",
        description="An assistant daemon. It talks, runs tools, remembers, and loses no message.",
        epilog=f"commands:\n{lines}\n\n'aidaemon' alone, in a terminal, is 'aidaemon chat'."
        " 'aidaemon COMMAND --help' tells more of one of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = f"aidaemon {VERSION}"
    parser.add_argument("--version", action="version", version=version, help="print the version")
    add_options(parser, COMMON)
    return parser
