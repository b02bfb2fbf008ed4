"""What the words of a command line mean: one file per command, imported only when it runs.

A command's file has HELP (one line), add_arguments(parser) and run(args) -> exit code.
"""

import argparse
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn, Protocol, cast

from daemon import VERSION
from daemon.core import value
from daemon.core.errors import UsageError
from daemon.settings.paths import Paths, resolve_paths

COMMANDS = {
    "chat": "daemon.cli.chat",
    "run": "daemon.cli.run",
    "runs": "daemon.cli.runs",
    "show": "daemon.cli.show",
    "loop": "daemon.cli.loop",
    "doctor": "daemon.cli.doctor",
    "config": "daemon.cli.config",
    "secret": "daemon.cli.secret",
    "pair": "daemon.cli.pair",
    "mcp": "daemon.cli.mcp",
    "model": "daemon.cli.model",
    "backup": "daemon.cli.backup",
}


NOT_YET = {
    "init": 'write config.toml by hand, a few lines: README tells how ("Use another model")',
    "service": "let your system start `aidaemon run`",
}


class CliCommand(Protocol):
    """What a command's file has."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Say what the command line may hold."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit code. Raises AidaemonError."""
        ...


class RaisingParser(argparse.ArgumentParser):
    """Complains by raising, so that every wrong command line ends the same way."""

    def error(self, message: str) -> NoReturn:
        """The command line does not fit."""
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


@value
class ParsedCommand:
    """A command line that was understood."""

    run: Callable[[argparse.Namespace], int]
    args: argparse.Namespace


def parse(argv: Sequence[str]) -> ParsedCommand:
    """The command to run and its arguments. Raises UsageError; leaves by SystemExit after --help."""
    common, words = _common_parser().parse_known_args(argv)
    if not words or words[0].startswith("-"):
        front = _front_parser()
        return ParsedCommand(lambda _: _print_help(front), front.parse_args(words))
    command = _load_command(words[0])
    parser = RaisingParser(
        prog=f"aidaemon {words[0]}", description=command.HELP, allow_abbrev=False
    )
    _add_common(parser)
    command.add_arguments(parser)
    return ParsedCommand(
        command.run, argparse.Namespace(**{**vars(parser.parse_args(words[1:])), **vars(common)})
    )


def parse_paths(argv: Sequence[str]) -> Paths:
    """Where the command line says that everything is. Raises UsageError."""
    common, _ = _common_parser().parse_known_args(argv)
    return resolve_paths(common.home, common.config)


def _common_parser() -> RaisingParser:
    """What every command takes, before or after its name; taken out first, so that no command has to know of it."""
    parser = RaisingParser(prog="aidaemon", add_help=False, allow_abbrev=False)
    _add_common(parser)
    return parser


def _load_command(name: str) -> CliCommand:
    if name in NOT_YET:
        raise UsageError(
            f"{name!r} is not in this version ({VERSION}) yet; until then: {NOT_YET[name]}"
        )
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"commands: {', '.join(COMMANDS)}"
        raise UsageError(f"there is no command {name!r}; {hint}")
    return cast(CliCommand, import_module(COMMANDS[name]))


def _front_parser() -> RaisingParser:
    width = max(map(len, COMMANDS)) + 2
    lines = "\n".join(f"  {name:<{width}}{_load_command(name).HELP}" for name in COMMANDS)
    parser = RaisingParser(
        prog="aidaemon",
        usage="aidaemon COMMAND [--home DIR] [--config FILE] ...",
        description="An assistant daemon. It talks, runs tools, remembers, and loses no message.",
        epilog=f"commands:\n{lines}\n\n'aidaemon COMMAND --help' tells more of one of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"aidaemon {VERSION}", help="print the version"
    )
    _add_common(parser)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--home",
        metavar="DIR",
        help="where everything is kept (default: $AIDAEMON_HOME, else ~/.aidaemon)",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the config file (default: config.toml in the home directory)",
    )
    parser.add_argument(
        "--debug", action="store_true", help="show where in the program an error came from"
    )


def _print_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0
