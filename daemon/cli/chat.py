"""aidaemon chat.

Light: `chat --once` with a running daemon imports its client and the plain screen only.
"""

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING

from daemon.cli.parsing import ANSWER_OPTIONS, Options
from daemon.cli.terminal.attachments import upload_files
from daemon.cli.terminal.follower import AutoAnswer
from daemon.cli.terminal.plain import LineReader, PlainChat, PlainScreen, run_interruptible
from daemon.client.http import (
    ConnectionWatch,
    HttpClient,
    ReconnectingClient,
    find_running_daemon,
)
from daemon.client.protocol import SESSION_NAME, DaemonClient
from daemon.core.clock import system_clock
from daemon.core.errors import UsageError
from daemon.settings.paths import Paths

if TYPE_CHECKING:
    from daemon.app.connect import DaemonConnection

MAIN_SESSION = "main"
DUMB_TERMINALS = ("dumb", "unknown")
LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LOADING = "loading the model …"
LEAVE_LOCAL = "finishing what runs; Ctrl-C leaves at once, and it goes on when you are back"
LEAVE_DAEMON = "the daemon goes on with what runs; its answer will be here when you are back"


OPTIONS: Options = {
    "--session NAME": {"default": MAIN_SESSION, "help": "the conversation (default: main)"},
    "--resume SESSION": {
        "nargs": "?",
        "const": "",
        "help": "go on with this conversation of the terminal, or with the last used one",
    },
    "--agent NAME": "the agent that answers from now on (agents/NAME.toml)",
    "--once TEXT": "send this, print the reply, leave; what is piped in goes along, as data",
    "-f,--file FILE": {
        "action": "append",
        "default": [],
        "help": "goes with the first message; several times for several files",
    },
    **ANSWER_OPTIONS,
    "--trust-input": "lines from a pipe are your own words, not data",
    "--json": "print each reply as one JSON object",
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Talk; the exit code says whether a reply failed."""
    check_session(args.session)
    if args.resume is not None and args.session != MAIN_SESSION:
        raise UsageError("--resume and --session: give one of them")
    if args.once is not None:
        args.once = replace_invalid(args.once)
        if not args.once.strip():
            raise UsageError("--once: a text is needed")
    if args.resume is not None:
        from daemon.cli.terminal.sessions import find_session  # lazy: for this option only

        args.session = asyncio.run(find_session(paths, args.resume))
    args.session = f"terminal:{args.session}"
    is_screen = sys.stdin.isatty() and sys.stdout.isatty()
    is_screen = is_screen and os.environ.get("TERM", "").lower() not in DUMB_TERMINALS
    is_plain = args.once is not None or args.json or not is_screen
    if is_plain and (client := find_running_daemon(paths)):
        return asyncio.run(_run_plain(args, client))
    fetch_model(paths)
    return asyncio.run(_connect(args, paths, is_plain))


def check_session(name: str) -> None:
    """Raises UsageError for what cannot name a session."""
    if not (name.strip() and SESSION_NAME.fullmatch(name)):
        expected = "expected a name without ':' and '/', of at most 100 characters"
        raise UsageError(f"--session: found {name!r}, {expected}")


def replace_invalid(argument: str) -> str:
    """Bytes that are no UTF-8 arrive as halves of surrogate pairs, which no journal takes."""
    return argument.encode(errors="surrogateescape").decode(errors="replace")


def fetch_model(paths: Paths) -> None:
    """Download the embedded model on its first use, where this process will run it."""
    from daemon.cli.run import gc_free_import  # lazy: a running daemon needs none of it

    with gc_free_import():
        from daemon.app.config import load_or_last_good  # lazy: brings the whole daemon
        from daemon.cli.model import ensure_model  # lazy: with it

    if find_running_daemon(paths) is None:
        provider = load_or_last_good(paths).config.provider
        if provider.kind == "local":
            ensure_model(provider.get_model())


async def _connect(args: argparse.Namespace, paths: Paths, is_plain: bool) -> int:
    from daemon.app.connect import connect  # lazy: brings the whole daemon

    fires = args.once is None and sys.stdin.isatty()  # a pipe ends before anything is done
    async with connect(paths, session=args.session, warm=not is_plain, fires=fires) as connection:
        if is_plain:
            loading = LOADING if connection.loads and sys.stderr.isatty() else ""
            notice = "\n".join(filter(None, (connection.notice, loading)))
            return await _run_plain(args, connection.client, notice)
        return await _run_interactive(args, paths, connection)


async def _run_plain(args: argparse.Namespace, client: DaemonClient, notice: str = "") -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if notice:
        print(notice, file=sys.stderr)
    if args.agent is not None:
        await client.set_agent(args.session, args.agent)
    chat = PlainChat(
        client=client,
        session=args.session,
        auto=AutoAnswer.parse(args),
        can_ask=sys.stdin.isatty() and sys.stdout.isatty(),
        screen=PlainScreen(sys.stdout, sys.stderr),
        lines=LineReader(sys.stdin.fileno()),
        piped=not (sys.stdin.isatty() or args.trust_input),
        as_json=args.json,
        files=await upload_files(client, args.file),
    )
    return await run_interruptible(chat.run(args.once), chat.stop)


async def _run_interactive(
    args: argparse.Namespace, paths: Paths, connection: "DaemonConnection"
) -> int:
    import logging  # lazy: for the screen only

    from daemon.app.config import (  # lazy: brings the config
        load_or_last_good,
        make_redactor,
    )
    from daemon.app.tools import resolve_workspace  # lazy: brings the tools
    from daemon.cli.terminal.interactive import InteractiveChat  # lazy: brings rich
    from daemon.cli.terminal.screen import TerminalScreen  # lazy: brings prompt_toolkit
    from daemon.cli.terminal.status_area import UsageMeter  # lazy: with it
    from daemon.settings.secrets import redact_logs  # lazy: brings the config

    # log lines would break the screen
    paths.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    logging.basicConfig(filename=paths.logs / "chat.log", level=logging.INFO, format=LOG_LINE)
    redact_logs(make_redactor(paths))
    if args.agent is not None:
        await connection.client.set_agent(args.session, args.agent)
    tools = load_or_last_good(paths).config.tools
    workspace = resolve_workspace(paths, tools.workspace)
    commands = {**connection.commands, "/quit": "leave the chat"}
    client, watch = connection.client, ConnectionWatch()
    if isinstance(client, HttpClient):
        client = ReconnectingClient(client.url, client.token, paths=paths, watch=watch)
    chat = InteractiveChat(
        client=client,
        watch=watch,
        session=args.session,
        auto=AutoAnswer.parse(args),
        files=await upload_files(connection.client, args.file),
        meter=UsageMeter(connection.model),
        screen=TerminalScreen(
            paths.home / "history", commands, system_clock().monotonic, workspace
        ),
    )
    name = args.session.partition(":")[2]
    hint = "/help for commands, Ctrl-D leaves"
    loading = LOADING if connection.loads else ""
    greeting = ("aidaemon", connection.model, f"session {name}", hint, loading)
    leaving = LEAVE_DAEMON if connection.remote else LEAVE_LOCAL
    await chat.run(" · ".join(part for part in greeting if part), leaving, connection.notice)
    return 0
