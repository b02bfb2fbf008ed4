"""aidaemon loop."""

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING, get_args

from daemon.config.paths import Paths, resolve
from daemon.core.errors import AidaemonError, UsageError
from daemon.core.events import Answer
from daemon.core.loops import Criterion, Order
from daemon.door.base import SESSION_NAME
from daemon.door.loops import LoopView, named, to_wire

if TYPE_CHECKING:
    from daemon.app import Opened

HELP = "one task again and again until it is done: start|stop|pause|resume|status|approve|reject"
BY = "terminal"
NOTHING = {"pause": "is not running", "resume": "is not paused", "stop": "is over", "approve": "waits for no review"}
NO_SESSION = "loop:"


class NoLoop(AidaemonError):
    """There is no such loop."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """start AGENT MESSAGE | stop|pause|resume|status|approve|reject [ID]."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    start = verbs.add_parser("start", help="begin a loop of this agent")
    start.add_argument("agent", metavar="AGENT", help="which agent; default is the one that [agent] describes")
    start.add_argument("message", metavar="MESSAGE", help="the task")
    start.add_argument("--session", default="main", metavar="NAME", help="the terminal conversation that is told (default: main)")
    start.add_argument("--criterion", choices=get_args(Criterion), help="when it is done (default: as the agent's settings say)")
    start.add_argument("--value", metavar="V", help="the pattern of regex, the command of test_pass")
    start.add_argument("--max-iterations", type=int, metavar="N", help="attempts at most, from 1 to 100")
    start.add_argument("--follow", action="store_true", help="with a daemon: watch it to its end")
    _add_answers(start)
    start.add_argument("--json", action="store_true", help="print the loop as one JSON object")
    for verb, help_text in (
        ("stop", "end it now"),
        ("pause", "no attempt after the one that runs"),
        ("resume", "go on after a pause, or after a crash"),
        ("status", "how it stands"),
        ("approve", "the attempt will do"),
        ("reject", "the attempt will not do"),
    ):
        one = verbs.add_parser(verb, help=help_text)
        one.add_argument("name", nargs="?", default="", metavar="ID", help="the loop, or its agent (default: the latest)")
        one.add_argument("--json", action="store_true", help="print the loop as one JSON object")
        if verb == "resume":
            _add_answers(one)


def _add_answers(parser: argparse.ArgumentParser) -> None:
    standing = parser.add_mutually_exclusive_group()
    standing.add_argument("--yes", action="store_true", help="say yes, once, to everything that is asked")
    standing.add_argument("--deny-all", action="store_true", help="say no to everything that is asked")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    paths = resolve(args.home, args.config)
    if args.verb == "status":
        return asyncio.run(_status(args, paths))
    if args.verb == "start":
        _check(args)
    return asyncio.run(_start(args, paths) if args.verb == "start" else _act(args, paths))


def _check(args: argparse.Namespace) -> None:
    if not SESSION_NAME.fullmatch(args.session):
        raise UsageError(f"--session: found {args.session!r}, expected a name without ':' and '/', of at most 100 characters")
    args.message = _text(args.message)
    args.value = None if args.value is None else _text(args.value)


def _text(argument: str) -> str:
    """What the command line gave as bytes that are no text is told with question marks in their place."""
    return argument.encode(errors="surrogateescape").decode(errors="replace")


async def _status(args: argparse.Namespace, paths: Paths) -> int:
    view = await _look_up(paths, args.name, open_only=False)
    if view is None and args.name:
        raise NoLoop(f"there is no loop {args.name!r}")
    if args.json:
        print(json.dumps(to_wire(view) if view else None, ensure_ascii=False))
    else:
        print(_told(view) if view else "There are no loops yet. Begin one: aidaemon loop start AGENT MESSAGE")
    return 0


async def _look_up(paths: Paths, name: str, *, open_only: bool) -> LoopView | None:
    """The config may be broken, nothing is taken up."""
    from daemon.app.doors import reading_door

    async with reading_door(paths) as door:
        return named(await door.loops().all(), name, open_only=open_only)


async def _start(args: argparse.Namespace, paths: Paths) -> int:
    """With a daemon it is begun there; without, it runs here to its end."""
    from daemon.app import open_door

    _fetch_model(paths)
    async with open_door(paths, session=NO_SESSION) as opened:
        order = Order(
            args.agent, args.message, f"terminal:{args.session}",
            criterion=args.criterion, value=args.value, max_iterations=args.max_iterations,
        )  # fmt: skip
        view = await opened.door.loops().start(order)
        if opened.remote and not args.follow:
            print(json.dumps(to_wire(view)) if args.json else f"Loop {view.loop_id} has begun: aidaemon loop status")
            return 0
        return await _follow(args, opened, view)


async def _act(args: argparse.Namespace, paths: Paths) -> int:
    from daemon.app import open_door

    seen = await _look_up(paths, args.name, open_only=True)
    if seen is None:
        raise NoLoop(f"no loop {args.name!r} is active" if args.name else "no loop is active")
    if args.verb == "resume":
        _fetch_model(paths)
    async with open_door(paths, session=NO_SESSION) as opened:
        view = await _do(args.verb, opened, seen)
        if view is None:
            reason = NOTHING.get(args.verb, NOTHING["approve"])
            raise AidaemonError(f"loop {seen.loop_id} {reason}: nothing was changed")
        if args.verb == "resume" and not opened.remote:
            return await _follow(args, opened, view)
    print(json.dumps(to_wire(view), ensure_ascii=False) if args.json else _told(view))
    return 0


async def _do(verb: str, opened: "Opened", view: LoopView) -> LoopView | None:
    loops = opened.door.loops()
    match verb:
        case "stop":
            return await loops.stop(view)
        case "pause":
            return await loops.pause(view)
        case "resume":
            return await loops.resume(view)
        case _:
            return await loops.review(view, approved=verb == "approve", by=BY)


async def _follow(args: argparse.Namespace, opened: "Opened", view: LoopView) -> int:
    from channels.terminal_lines import Lines
    from daemon.cli.loop_follow import LoopFollower, interruptible

    standing = Answer.ONCE if args.yes else Answer.DENY if args.deny_all else None
    ask = sys.stdin.isatty() and sys.stdout.isatty()
    if opened.notice:
        print(opened.notice, file=sys.stderr)
    follower = LoopFollower(opened.door, view, standing, ask, opened.remote, Lines(sys.stdin.fileno()), _tell)
    done = await interruptible(follower)
    if args.json:
        print(json.dumps(to_wire(done), ensure_ascii=False))
    elif done.status == "completed":
        print(done.final_output)
    if done.status == "failed":
        _tell(f"aidaemon: loop {done.loop_id} failed at attempt {done.iteration}: {done.error}")
    return follower.code(done)


def _fetch_model(paths: Paths) -> None:
    """The embedded model is fetched on first use, where this process is the one that will run it."""
    from daemon.app import config_of, running_daemon
    from daemon.cli.model import ensure_model

    if running_daemon(paths) is None:
        provider = config_of(paths).loaded.config.provider
        if provider.kind == "local":
            ensure_model(provider.model())


def _told(view: LoopView) -> str:
    criteria = f"{view.criteria.type} {view.criteria.value}".strip()
    waits = " (waits for your review: aidaemon loop approve, or reject)" if view.review else ""
    lines = [
        f"Loop {view.loop_id} of {view.agent}: {view.status}{waits}",
        f"  attempt {view.iteration} of {view.max_iterations}, until: {criteria}",
        *(f"  {number}. {line}" for number, line in enumerate(view.progress_log, 1)),
    ]
    return "\n".join(lines + ([f"  failed: {view.error}"] if view.error else []))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
