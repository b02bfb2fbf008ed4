"""aidaemon chat."""

import argparse
import asyncio
import io
import logging
import os
import sys
from typing import TYPE_CHECKING

from daemon.cli.undisturbed import undisturbed
from daemon.config.paths import Paths, resolve
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.door.base import SESSION_NAME

if TYPE_CHECKING:
    from daemon.app import Opened

HELP = "a conversation in the terminal"
DUMB = {"dumb", "unknown"}
LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LEFT_HERE = "finishing what runs; Ctrl-C leaves at once, and it goes on when you are back"
LEFT_TO_DAEMON = "the daemon goes on with what runs; its answer will be here when you are back"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[--session NAME] [--agent NAME] [--once TEXT] [--yes|--deny-all] [--json]."""
    parser.add_argument("--session", default="main", metavar="NAME", help="which conversation to go on with (default: main)")
    parser.add_argument("--agent", metavar="NAME", help="which agent answers in it from now on (agents/NAME.toml)")
    parser.add_argument("--once", metavar="TEXT", help="say this, print the reply, leave")
    standing = parser.add_mutually_exclusive_group()
    standing.add_argument("--yes", action="store_true", help="say yes, once, to all that is asked; raise a run's budget once")
    standing.add_argument("--deny-all", action="store_true", help="say no to all that is asked")
    parser.add_argument("--json", action="store_true", help="print each reply as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    _check(args)
    paths = resolve(args.home, args.config)
    _fetch_model(paths)
    return asyncio.run(_chat(args, paths))


def _check(args: argparse.Namespace) -> None:
    """What is not UTF-8 arrives in halves of surrogate pairs, which neither a model nor a journal takes."""
    if not (args.session.strip() and SESSION_NAME.fullmatch(args.session)):
        raise UsageError(f"--session: found {args.session!r}, expected a name without ':' and '/', of at most 100 characters")
    if args.once is not None:
        args.once = args.once.encode(errors="surrogateescape").decode(errors="replace")
        if not args.once.strip():
            raise UsageError("--once: a text is needed")


def _fetch_model(paths: Paths) -> None:
    """The embedded model is fetched on first use, where this process is the one that will run it."""
    with undisturbed():
        from daemon.app import config_of, running_daemon
        from daemon.cli.model import ensure_model

    if running_daemon(paths) is None:
        provider = config_of(paths).loaded.config.provider
        if provider.kind == "local":
            ensure_model(provider.model())


async def _chat(args: argparse.Namespace, paths: Paths) -> int:
    from daemon.app import open_door

    plain = args.once is not None or args.json or not _has_screen()
    async with open_door(paths, session=f"terminal:{args.session}", warm=not plain) as opened:
        if args.agent is not None:
            await opened.door.choose(f"terminal:{args.session}", args.agent)
        return await _plain(args, opened) if plain else await _talk(args, paths, opened)


def _has_screen() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in DUMB


def _standing(args: argparse.Namespace) -> Answer | None:
    return Answer.ONCE if args.yes else Answer.DENY if args.deny_all else None


async def _plain(args: argparse.Namespace, opened: "Opened") -> int:
    from channels.terminal_lines import Lines
    from daemon.app.house import system_clock
    from daemon.cli.chat_plain import Pages, PlainChat, interruptible
    from daemon.core.ids import new_id

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if opened.notice:
        print(opened.notice, file=sys.stderr)
    chat = PlainChat(
        door=opened.door,
        session=f"terminal:{args.session}",
        clock=system_clock(),
        new_id=new_id,
        standing=_standing(args),
        ask=sys.stdin.isatty() and sys.stdout.isatty(),
        pages=Pages(sys.stdout, sys.stderr),
        lines=Lines(sys.stdin.fileno()),
        as_json=args.json,
    )
    return await interruptible(chat, chat.converse() if args.once is None else chat.once(args.once))


async def _talk(args: argparse.Namespace, paths: Paths, opened: "Opened") -> int:
    from channels.terminal import Terminal
    from daemon.app.house import system_clock
    from daemon.cli.chat_talk import Conversation
    from daemon.commands.table import TABLE
    from daemon.core.ids import new_id

    _log_to(paths)
    clock = system_clock()
    commands = {f"/{command.name}": command.help for command in TABLE.values()} | {"/quit": "leave the chat"}
    history = paths.home / "history"
    talk = Conversation(opened.door, f"terminal:{args.session}", clock, new_id, _standing(args))
    talk.attach(lambda on_line, on_interrupt: Terminal(history, commands, clock.monotonic, on_line, on_interrupt))
    parts = ["aidaemon", opened.model, f"session {args.session}", "/help for commands, Ctrl-D leaves"]
    leaving = LEFT_TO_DAEMON if opened.remote else LEFT_HERE
    await talk.run(" · ".join(part for part in parts if part), leaving, opened.notice)
    return 0


def _log_to(paths: Paths) -> None:
    """Logs would tear the screen: while it is in use they go to a file."""
    from daemon.app.discretion import discreet_logs
    from daemon.config.hidden import redactor

    paths.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    logging.basicConfig(filename=paths.logs / "chat.log", level=logging.INFO, format=LOG_LINE)
    discreet_logs(redactor(paths))
