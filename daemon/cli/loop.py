"""Following a loop to its end: attempts are told as they come, questions are put to whoever sits there.

aidaemon loop.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

from daemon.cli.terminal.approvals import (
    NOBODY,
    TERMINAL_OWNER,
    asks_for_view,
    build_question,
    parse_answer,
)
from daemon.cli.terminal.items import to_plain_text
from daemon.cli.terminal.plain import LineReader
from daemon.client.protocol import (
    SESSION_NAME,
    ApprovalView,
    DaemonClient,
    LoopAction,
    LoopView,
    find_loop,
    loop_to_json,
)
from daemon.core.errors import AidaemonError, UsageError
from daemon.core.events import Answer
from daemon.core.rows import Criterion, LoopOrder
from daemon.settings.paths import Paths, resolve_paths

POLL_S = 0.3
FAILED, INTERRUPTED = 1, 130
LEFT_TO_DAEMON = "the daemon goes on with it; `aidaemon loop stop` ends it"


@dataclass(slots=True)
class LoopFollower:
    """Looks again and again: so it does not matter where the loop runs, nor who else answers. `remote`: a daemon runs it."""

    client: DaemonClient
    loop: LoopView
    fixed_answer: Answer | None
    ask: bool
    remote: bool
    lines: LineReader
    print_status: Callable[[str], None]
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    _shown_attempts: int = 0
    _shown_iteration: int = 0

    async def follow(self) -> LoopView:
        """The loop when it has ended, or when the person has left."""
        if self.ask:
            self.lines.start()
        while True:
            self._show()
            if self.loop.ended or (self.interrupted.is_set() and self.remote):
                return self.loop
            if not self.interrupted.is_set():
                await self._answer_questions()
            await self._pause()
            self.loop = (
                find_loop(
                    await self.client.list_loops(self.loop.agent),
                    self.loop.loop_id,
                    open_only=False,
                )
                or self.loop
            )

    async def interrupt(self) -> None:
        """Ctrl-C: a loop of this process is stopped, one of a daemon is only left."""
        self.interrupted.set()
        self.lines.close()
        if self.remote:
            self.print_status(LEFT_TO_DAEMON)
        else:
            await self.client.change_loop(self.loop, LoopAction.STOP)

    def code(self, done: LoopView) -> int:
        """The exit code."""
        return (
            INTERRUPTED if self.interrupted.is_set() else FAILED if done.status == "failed" else 0
        )

    def _show(self) -> None:
        view = self.loop
        for number, line in enumerate(
            view.progress_log[self._shown_attempts :], self._shown_attempts + 1
        ):
            self.print_status(f"  attempt {number}: {line}")
        self._shown_attempts = len(view.progress_log)
        if (
            view.iteration > max(self._shown_iteration, self._shown_attempts)
            and view.status == "running"
        ):
            self._shown_iteration = view.iteration
            self.print_status(f"attempt {view.iteration} of {view.max_iterations} …")

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self.interrupted.wait(), POLL_S)
        except TimeoutError:
            return

    async def _open(self) -> list[ApprovalView]:
        return await self.client.list_approvals("pending", f"loop:{self.loop.loop_id}")

    async def _answer_questions(self) -> None:
        for asked in await self._open():
            answered = (
                (self.fixed_answer, "") if self.fixed_answer else await self._prompt_user(asked)
            )
            if answered and not await self.client.answer_approval(
                asked.turn, asked.call_id, answered[0], TERMINAL_OWNER, answered[1]
            ):
                self.print_status("that question is not open any more")

    async def _prompt_user(self, asked: ApprovalView) -> tuple[Answer, str] | None:
        """What the person says; None when somebody else has said it, or is to say it."""
        if not self.ask:
            return None if self.remote else (Answer.DENY, NOBODY)
        question = build_question(asked)
        while True:
            self.print_status(f"{to_plain_text(question)}\n{question.choices}: ")
            text = await self._line(asked)
            if text is None:
                return None
            if not (question.is_long and asks_for_view(text)):
                return parse_answer(text or "no", question)
            question = replace(question, show_all=True)

    async def _line(self, asked: ApprovalView) -> str | None:
        """A line, unless the question is settled meanwhile."""
        typing = asyncio.ensure_future(self.lines.read_line())
        try:
            while not typing.done():
                await asyncio.wait((typing,), timeout=POLL_S)
                if not typing.done() and asked not in await self._open():
                    return None
            if typing.result() is None:
                self.ask = False  # nobody types any more
            return typing.result()
        finally:
            typing.cancel()


async def follow_interruptibly(follower: LoopFollower) -> LoopView:
    """Follow it; the first SIGINT or SIGTERM interrupts in good order, a second one leaves at once."""
    loop = asyncio.get_running_loop()
    pressed = asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, pressed.set)

    async def stop() -> None:
        await pressed.wait()
        for number in signals:
            loop.remove_signal_handler(number)
        await follower.interrupt()

    async with asyncio.TaskGroup() as group:
        stopper = group.create_task(stop())
        done = await follower.follow()
        if not pressed.is_set():
            stopper.cancel()
    return done


if TYPE_CHECKING:
    from daemon.app import DaemonConnection

HELP = "one task again and again until it is done: start|stop|pause|resume|status|approve|reject"
TERMINAL_NAME = "terminal"
REFUSALS = {
    "pause": "is not running",
    "resume": "is not paused",
    "stop": "is over",
    "approve": "waits for no review",
}
NO_SESSION = "loop:"


class LoopNotFound(AidaemonError):
    """There is no such loop."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """start AGENT MESSAGE | stop|pause|resume|status|approve|reject [ID]."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    start = verbs.add_parser("start", help="begin a loop of this agent")
    start.add_argument(
        "agent", metavar="AGENT", help="which agent; default is the one that [agent] describes"
    )
    start.add_argument("message", metavar="MESSAGE", help="the task")
    start.add_argument(
        "--session",
        default="main",
        metavar="NAME",
        help="the terminal conversation that is told (default: main)",
    )
    start.add_argument(
        "--criterion",
        choices=get_args(Criterion),
        help="when it is done (default: as the agent's settings say)",
    )
    start.add_argument(
        "--value", metavar="V", help="the pattern of regex, the command of test_pass"
    )
    start.add_argument(
        "--max-iterations", type=int, metavar="N", help="attempts at most, from 1 to 100"
    )
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
        one.add_argument(
            "name",
            nargs="?",
            default="",
            metavar="ID",
            help="the loop, or its agent (default: the latest)",
        )
        one.add_argument("--json", action="store_true", help="print the loop as one JSON object")
        if verb == "resume":
            _add_answers(one)


def _add_answers(parser: argparse.ArgumentParser) -> None:
    standing = parser.add_mutually_exclusive_group()
    standing.add_argument(
        "--yes", action="store_true", help="say yes, once, to everything that is asked"
    )
    standing.add_argument(
        "--deny-all", action="store_true", help="say no to everything that is asked"
    )


def run(args: argparse.Namespace) -> int:
    """Do it."""
    paths = resolve_paths(args.home, args.config)
    if args.verb == "status":
        return asyncio.run(_status(args, paths))
    if args.verb == "start":
        _check(args)
    return asyncio.run(_start(args, paths) if args.verb == "start" else _act(args, paths))


def _check(args: argparse.Namespace) -> None:
    if not SESSION_NAME.fullmatch(args.session):
        raise UsageError(
            f"--session: found {args.session!r}, expected a name without ':' and '/', of at most 100 characters"
        )
    args.message = _text(args.message)
    args.value = None if args.value is None else _text(args.value)


def _text(argument: str) -> str:
    """What the command line gave as bytes that are no text is told with question marks in their place."""
    return argument.encode(errors="surrogateescape").decode(errors="replace")


async def _status(args: argparse.Namespace, paths: Paths) -> int:
    view = await _look_up(paths, args.name, open_only=False)
    if view is None and args.name:
        raise LoopNotFound(f"there is no loop {args.name!r}")
    if args.json:
        print(json.dumps(loop_to_json(view) if view else None, ensure_ascii=False))
    else:
        print(
            _describe_loop(view)
            if view
            else "There are no loops yet. Begin one: aidaemon loop start AGENT MESSAGE"
        )
    return 0


async def _look_up(paths: Paths, name: str, *, open_only: bool) -> LoopView | None:
    """The config may be broken, nothing is taken up."""
    from daemon.app.connect import open_reader

    async with open_reader(paths) as door:
        return find_loop(await door.list_loops(), name, open_only=open_only)


async def _start(args: argparse.Namespace, paths: Paths) -> int:
    """With a daemon it is begun there; without, it runs here to its end."""
    from daemon.app import connect

    _fetch_model(paths)
    async with connect(paths, session=NO_SESSION) as opened:
        order = LoopOrder(
            args.agent, args.message, f"terminal:{args.session}",
            criterion=args.criterion, value=args.value, max_iterations=args.max_iterations,
        )  # fmt: skip
        view = await opened.client.start_loop(order)
        if opened.remote and not args.follow:
            print(
                json.dumps(loop_to_json(view))
                if args.json
                else f"Loop {view.loop_id} has begun: aidaemon loop status"
            )
            return 0
        return await _follow(args, opened, view)


async def _act(args: argparse.Namespace, paths: Paths) -> int:
    from daemon.app import connect

    seen = await _look_up(paths, args.name, open_only=True)
    if seen is None:
        raise LoopNotFound(f"no loop {args.name!r} is active" if args.name else "no loop is active")
    if args.verb == "resume":
        _fetch_model(paths)
    async with connect(paths, session=NO_SESSION) as opened:
        view = await _do(args.verb, opened, seen)
        if view is None:
            reason = REFUSALS.get(args.verb, REFUSALS["approve"])
            raise AidaemonError(f"loop {seen.loop_id} {reason}: nothing was changed")
        if args.verb == "resume" and not opened.remote:
            return await _follow(args, opened, view)
    print(json.dumps(loop_to_json(view), ensure_ascii=False) if args.json else _describe_loop(view))
    return 0


async def _do(verb: str, opened: "DaemonConnection", view: LoopView) -> LoopView | None:
    if verb in ("approve", "reject"):
        return await opened.client.review_loop(view, approved=verb == "approve", by=TERMINAL_NAME)
    return await opened.client.change_loop(view, LoopAction(verb))


async def _follow(args: argparse.Namespace, opened: "DaemonConnection", view: LoopView) -> int:
    from daemon.cli.terminal.plain import LineReader

    standing = Answer.ONCE if args.yes else Answer.DENY if args.deny_all else None
    ask = sys.stdin.isatty() and sys.stdout.isatty()
    if opened.notice:
        print(opened.notice, file=sys.stderr)
    follower = LoopFollower(
        opened.client,
        view,
        standing,
        ask,
        opened.remote,
        LineReader(sys.stdin.fileno()),
        _print_status,
    )
    done = await follow_interruptibly(follower)
    if args.json:
        print(json.dumps(loop_to_json(done), ensure_ascii=False))
    elif done.status == "completed":
        print(done.final_output)
    if done.status == "failed":
        _print_status(
            f"aidaemon: loop {done.loop_id} failed at attempt {done.iteration}: {done.error}"
        )
    return follower.code(done)


def _fetch_model(paths: Paths) -> None:
    """The embedded model is fetched on first use, where this process is the one that will run it."""
    from daemon.app import find_running_daemon, load_or_last_good
    from daemon.cli.model import ensure_model

    if find_running_daemon(paths) is None:
        provider = load_or_last_good(paths).loaded.config.provider
        if provider.kind == "local":
            ensure_model(provider.get_model())


def _describe_loop(view: LoopView) -> str:
    criteria = f"{view.criteria.type} {view.criteria.value}".strip()
    waits = " (waits for your review: aidaemon loop approve, or reject)" if view.review else ""
    lines = [
        f"Loop {view.loop_id} of {view.agent}: {view.status}{waits}",
        f"  attempt {view.iteration} of {view.max_iterations}, until: {criteria}",
        *(f"  {number}. {line}" for number, line in enumerate(view.progress_log, 1)),
    ]
    return "\n".join(lines + ([f"  failed: {view.error}"] if view.error else []))


def _print_status(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
