"""aidaemon chat."""

import argparse
import asyncio
import io
import logging
import os
import sys
from typing import TYPE_CHECKING

from daemon.cli.run import gc_free_import
from daemon.client.protocol import SESSION_NAME
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.settings.paths import Paths, resolve_paths

if TYPE_CHECKING:
    from daemon.app import DaemonConnection

HELP = "a conversation in the terminal"
DUMB = {"dumb", "unknown"}
LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LEFT_HERE = "finishing what runs; Ctrl-C leaves at once, and it goes on when you are back"
LEFT_TO_DAEMON = "the daemon goes on with what runs; its answer will be here when you are back"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[--session NAME] [--agent NAME] [--once TEXT] [--yes|--deny-all] [--json]."""
    parser.add_argument(
        "--session",
        default="main",
        metavar="NAME",
        help="which conversation to go on with (default: main)",
    )
    parser.add_argument(
        "--agent", metavar="NAME", help="which agent answers in it from now on (agents/NAME.toml)"
    )
    parser.add_argument("--once", metavar="TEXT", help="say this, print the reply, leave")
    standing = parser.add_mutually_exclusive_group()
    standing.add_argument(
        "--yes",
        action="store_true",
        help="say yes, once, to all that is asked; raise a run's budget once",
    )
    standing.add_argument("--deny-all", action="store_true", help="say no to all that is asked")
    parser.add_argument("--json", action="store_true", help="print each reply as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    _validate(args)
    paths = resolve_paths(args.home, args.config)
    _fetch_model(paths)
    return asyncio.run(_chat(args, paths))


def _validate(args: argparse.Namespace) -> None:
    """What is not UTF-8 arrives in halves of surrogate pairs, which neither a model nor a journal takes."""
    if not (args.session.strip() and SESSION_NAME.fullmatch(args.session)):
        raise UsageError(
            f"--session: found {args.session!r}, expected a name without ':' and '/', of at most 100 characters"
        )
    if args.once is not None:
        args.once = args.once.encode(errors="surrogateescape").decode(errors="replace")
        if not args.once.strip():
            raise UsageError("--once: a text is needed")


def _fetch_model(paths: Paths) -> None:
    """The embedded model is fetched on first use, where this process is the one that will run it."""
    with gc_free_import():
        from daemon.app import find_running_daemon, load_or_last_good
        from daemon.cli.model import ensure_model

    if find_running_daemon(paths) is None:
        provider = load_or_last_good(paths).loaded.config.provider
        if provider.kind == "local":
            ensure_model(provider.get_model())


async def _chat(args: argparse.Namespace, paths: Paths) -> int:
    from daemon.app import connect

    plain = args.once is not None or args.json or not _has_screen()
    async with connect(paths, session=f"terminal:{args.session}", warm=not plain) as opened:
        if args.agent is not None:
            await opened.client.set_agent(f"terminal:{args.session}", args.agent)
        return (
            await _run_plain(args, opened) if plain else await _run_interactive(args, paths, opened)
        )


def _has_screen() -> bool:
    return (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "").lower() not in DUMB
    )


def _fixed_answer(args: argparse.Namespace) -> Answer | None:
    return Answer.ONCE if args.yes else Answer.DENY if args.deny_all else None


async def _run_plain(args: argparse.Namespace, opened: "DaemonConnection") -> int:
    from daemon.app.daemon import system_clock
    from daemon.cli.terminal.plain import LineReader, PlainChat, PlainScreen, run_interruptible
    from daemon.core.ids import new_id

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if opened.notice:
        print(opened.notice, file=sys.stderr)
    chat = PlainChat(
        client=opened.client,
        session=f"terminal:{args.session}",
        clock=system_clock(),
        new_id=new_id,
        fixed_answer=_fixed_answer(args),
        ask=sys.stdin.isatty() and sys.stdout.isatty(),
        screen=PlainScreen(sys.stdout, sys.stderr),
        lines=LineReader(sys.stdin.fileno()),
        as_json=args.json,
    )
    return await run_interruptible(
        chat, chat.run() if args.once is None else chat.run_once(args.once)
    )


async def _run_interactive(
    args: argparse.Namespace, paths: Paths, opened: "DaemonConnection"
) -> int:
    from daemon.app.daemon import system_clock
    from daemon.cli.terminal.interactive import InteractiveChat
    from daemon.cli.terminal.screen import TerminalScreen
    from daemon.commands.registry import COMMANDS
    from daemon.core.ids import new_id

    _log_to_file(paths)
    clock = system_clock()
    commands = {f"/{command.name}": command.help for command in COMMANDS.values()} | {
        "/quit": "leave the chat"
    }
    history = paths.home / "history"
    talk = InteractiveChat(
        opened.client, f"terminal:{args.session}", clock, new_id, _fixed_answer(args)
    )
    talk.attach(
        lambda on_line, on_interrupt: TerminalScreen(
            history, commands, clock.monotonic, on_line, on_interrupt
        )
    )
    parts = [
        "aidaemon",
        opened.model,
        f"session {args.session}",
        "/help for commands, Ctrl-D leaves",
    ]
    leaving = LEFT_TO_DAEMON if opened.remote else LEFT_HERE
    await talk.run(" · ".join(part for part in parts if part), leaving, opened.notice)
    return 0


def _log_to_file(paths: Paths) -> None:
    """Logs would tear the screen: while it is in use they go to a file."""
    from daemon.settings.secret_values import make_redactor, redact_logs

    paths.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    logging.basicConfig(filename=paths.logs / "chat.log", level=logging.INFO, format=LOG_LINE)
    redact_logs(make_redactor(paths))
