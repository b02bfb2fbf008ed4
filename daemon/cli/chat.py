"""aidaemon chat."""

import argparse
import asyncio
import io
import os
import sys
from typing import TYPE_CHECKING

from daemon.config.paths import Paths, resolve
from daemon.core.errors import UsageError
from daemon.core.events import Answer

if TYPE_CHECKING:
    from daemon.door.base import Door

HELP = "a conversation in the terminal"
DUMB = {"dumb", "unknown"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[--session NAME] [--once TEXT] [--yes|--deny-all] [--json]."""
    parser.add_argument("--session", default="main", metavar="NAME", help="which conversation to go on with (default: main)")
    parser.add_argument("--once", metavar="TEXT", help="say this, print the reply, leave")
    standing = parser.add_mutually_exclusive_group()
    standing.add_argument("--yes", action="store_true", help="allow, once, every call that would be asked about")
    standing.add_argument("--deny-all", action="store_true", help="deny every call that would be asked about")
    parser.add_argument("--json", action="store_true", help="print each reply as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    if not args.session.strip():
        raise UsageError("--session: a name is needed")
    if args.once is not None and not args.once.strip():
        raise UsageError("--once: a text is needed")
    return asyncio.run(_chat(args, resolve(args.home, args.config)))


async def _chat(args: argparse.Namespace, paths: Paths) -> int:
    from daemon.app import open_door

    async with open_door(paths) as door:
        if args.once is not None or args.json or not _has_screen():
            return await _plain(args, door)
        return await _talk(args, paths, door)


def _has_screen() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in DUMB


def _standing(args: argparse.Namespace) -> Answer | None:
    return Answer.ONCE if args.yes else Answer.DENY if args.deny_all else None


async def _plain(args: argparse.Namespace, door: "Door") -> int:
    from channels.terminal_lines import Lines
    from daemon.cli.chat_plain import Pages, PlainChat, interruptible
    from daemon.core.clock import SystemClock
    from daemon.core.ids import new_id

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    chat = PlainChat(
        door=door,
        session=f"terminal:{args.session}",
        clock=SystemClock(),
        new_id=new_id,
        standing=_standing(args),
        ask=sys.stdin.isatty() and sys.stdout.isatty(),
        pages=Pages(sys.stdout, sys.stderr),
        lines=Lines(sys.stdin.fileno()),
        as_json=args.json,
    )
    return await interruptible(chat, chat.converse() if args.once is None else chat.once(args.once))


async def _talk(args: argparse.Namespace, paths: Paths, door: "Door") -> int:
    from channels.terminal import Terminal
    from daemon.cli.chat_talk import Conversation
    from daemon.commands.table import TABLE
    from daemon.core.clock import SystemClock
    from daemon.core.ids import new_id

    clock = SystemClock()
    talk = Conversation(door, f"terminal:{args.session}", clock, new_id, _standing(args))
    commands = {f"/{command.name}": command.help for command in TABLE.values()} | {"/quit": "leave the chat"}
    history = paths.home / "history"
    talk.attach(lambda on_line, on_interrupt: Terminal(history, commands, clock.monotonic, on_line, on_interrupt))
    await talk.run(f"aidaemon · session {args.session} · /help shows what can be said, Ctrl-D leaves")
    return 0
