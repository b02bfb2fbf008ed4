"""aidaemon loop."""

import argparse
import asyncio
import json
import signal
import sys
from dataclasses import dataclass
from typing import get_args

from daemon.app.connect import DaemonConnection, connect, open_reader
from daemon.cli.chat import check_session, fetch_model, replace_invalid
from daemon.cli.parsing import ANSWER_OPTIONS, Actions, Options
from daemon.cli.terminal.follower import (
    TERMINAL_OWNER,
    AutoAnswer,
)
from daemon.cli.terminal.plain import (
    INTERRUPTED,
    LineReader,
    PlainChat,
    PlainScreen,
    run_interruptible,
)
from daemon.client.loop_view import LoopAction, LoopView, find_loop, loop_to_json
from daemon.core.errors import AidaemonError
from daemon.core.requests import LoopOrder
from daemon.core.rows import Criterion
from daemon.settings.paths import Paths

JSON = {"--json": "print the loop as a JSON object"}
REFUSALS = {"pause": "is not running", "resume": "is not paused", "stop": "has ended"}
NO_REVIEW = "waits for no review"
NO_SESSION = "loop:"
POLL_S = 0.3
LEFT_TO_DAEMON = "the daemon goes on with it; `aidaemon loop stop` ends it"


LOOP: Options = {
    "[ID]": {"default": "", "help": "the loop, or its agent (default: the latest)"},
    **JSON,
}
ACTIONS: Actions = {
    "start": (
        "start a loop of this agent",
        {
            "AGENT": "the agent; default is the one that [agent] describes",
            "MESSAGE": "the task",
            "--session NAME": {
                "default": "main",
                "help": "the terminal conversation that gets the result (default: main)",
            },
            "--criterion": {
                "choices": get_args(Criterion),
                "help": "when it is done (default: by the agent's settings)",
            },
            "--value V": "the pattern of regex, the command of test_pass",
            "--max-iterations N": {"type": int, "help": "attempts at most, from 1 to 100"},
            "--follow": "with a daemon: watch it to its end",
            **ANSWER_OPTIONS,
            **JSON,
        },
    ),
    "stop": ("end it now", LOOP),
    "pause": ("no attempt after the one that runs", LOOP),
    "resume": ("go on after a pause, or after a crash", {**LOOP, **ANSWER_OPTIONS}),
    "status": ("show its state", LOOP),
    "approve": ("accept the attempt", LOOP),
    "reject": ("do not accept the attempt", LOOP),
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Start, change or show a loop."""
    if args.action == "status":
        return asyncio.run(_show_status(args, paths))
    if args.action != "start":
        return asyncio.run(_change(args, paths))
    check_session(args.session)
    args.message = replace_invalid(args.message)
    args.value = None if args.value is None else replace_invalid(args.value)
    return asyncio.run(_start(args, paths))


async def _find_loop(paths: Paths, name: str, *, open_only: bool) -> LoopView | None:
    """Works with a broken config too, and resumes nothing."""
    async with open_reader(paths) as reader:
        return find_loop(await reader.list_loops(), name, open_only=open_only)


async def _show_status(args: argparse.Namespace, paths: Paths) -> int:
    view = await _find_loop(paths, args.id, open_only=False)
    if view is None and args.id:
        raise AidaemonError(f"there is no loop {args.id!r}")
    if args.json or view:
        _print_loop(args, view)
    else:
        print("There are no loops yet. Start one: aidaemon loop start AGENT MESSAGE")
    return 0


async def _start(args: argparse.Namespace, paths: Paths) -> int:
    """With a daemon the loop runs there; without one it runs here to its end."""
    fetch_model(paths)
    order = LoopOrder(
        args.agent,
        args.message,
        f"terminal:{args.session}",
        criterion=args.criterion,
        value=args.value,
        max_iterations=args.max_iterations,
    )
    async with connect(paths, session=NO_SESSION) as connection:
        view = await connection.client.start_loop(order)
        if not connection.remote or args.follow:
            return await _follow(args, connection, view)
    started = f"Loop {view.loop_id} has started: aidaemon loop status"
    print(json.dumps(loop_to_json(view)) if args.json else started)
    return 0


async def _change(args: argparse.Namespace, paths: Paths) -> int:
    seen, verb = await _find_loop(paths, args.id, open_only=True), args.action
    if seen is None:
        raise AidaemonError(f"no loop {args.id!r} is active" if args.id else "no loop is active")
    if verb == "resume":
        fetch_model(paths)
    async with connect(paths, session=NO_SESSION) as connection:
        client, by = connection.client, TERMINAL_OWNER.name
        if verb in REFUSALS:
            view = await client.change_loop(seen, LoopAction(verb))
        else:
            view = await client.review_loop(seen, approved=verb == "approve", by=by)
        if view is None:
            reason = REFUSALS.get(verb, NO_REVIEW)
            raise AidaemonError(f"loop {seen.loop_id} {reason}: nothing was changed")
        if verb == "resume" and not connection.remote:
            return await _follow(args, connection, view)
    _print_loop(args, view)
    return 0


async def _follow(args: argparse.Namespace, connection: DaemonConnection, view: LoopView) -> int:
    if connection.notice:
        _print_status(connection.notice)
    follower = LoopFollower(
        client=connection.client,
        session=f"loop:{view.loop_id}",
        auto=AutoAnswer.parse(args, raises_once=False),
        can_ask=sys.stdin.isatty() and sys.stdout.isatty(),
        screen=PlainScreen(sys.stdout, sys.stderr),
        lines=LineReader(sys.stdin.fileno()),
        leaves_questions=connection.remote,
        loop=view,
    )
    signals = (signal.SIGINT, signal.SIGTERM)
    done = await run_interruptible(follower.follow_loop(), follower.stop, signals)
    if args.json:
        _print_loop(args, done)
    elif done.status == "completed":
        print(done.final_output)
    if done.status == "failed":
        where = f"loop {done.loop_id} failed at attempt {done.iteration}"
        _print_status(f"aidaemon: {where}: {done.error}")
    return INTERRUPTED if follower.interrupted else int(done.status == "failed")


def _print_loop(args: argparse.Namespace, view: LoopView | None) -> None:
    if args.json or view is None:
        print(json.dumps(loop_to_json(view) if view else None, ensure_ascii=False))
        return
    criteria = f"{view.criteria.type} {view.criteria.value}".strip()
    review = " (waits for your review: aidaemon loop approve, or reject)" if view.review else ""
    print(f"Loop {view.loop_id} of {view.agent}: {view.status}{review}")
    print(f"  attempt {view.iteration} of {view.max_iterations}, until: {criteria}")
    for number, line in enumerate(view.progress_log, 1):
        print(f"  {number}. {line}")
    if view.error:
        print(f"  failed: {view.error}")


def _print_status(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass(slots=True, kw_only=True)
class LoopFollower(PlainChat):
    """Polls, so it does not matter where the loop runs, nor who else answers. Questions that nobody
    answers are left to a daemon that runs it.
    """

    loop: LoopView
    _shown_attempts: int = 0
    _shown_iteration: int = 0

    async def follow_loop(self) -> LoopView:
        """The loop when it has ended, or when the person has left."""
        if self.can_ask:
            self.lines.start()
        async with self.follow_subagents():
            while not self.loop.ended and not (self.interrupted and self.leaves_questions):
                self._show_progress()
                if not self.interrupted:
                    await self._update_questions()
                await asyncio.sleep(POLL_S)
                loops = await self.client.list_loops(self.loop.agent)
                self.loop = find_loop(loops, self.loop.loop_id, open_only=False) or self.loop
            self._show_progress()
            if self._reading:
                self._reading.cancel()
        return self.loop

    async def stop(self) -> None:
        """Ctrl-C: a loop of this process is stopped, one of a daemon goes on."""
        self.interrupted = True
        self.lines.close()
        if self.leaves_questions:
            _print_status(LEFT_TO_DAEMON)
        else:
            await self.client.change_loop(self.loop, LoopAction.STOP)

    def _show_progress(self) -> None:
        view = self.loop
        for number, line in enumerate(view.progress_log, 1):
            if number > self._shown_attempts:
                _print_status(f"  attempt {number}: {line}")
        self._shown_attempts = len(view.progress_log)
        shown = max(self._shown_iteration, self._shown_attempts)
        if view.iteration > shown and view.status == "running":
            self._shown_iteration = view.iteration
            _print_status(f"attempt {view.iteration} of {view.max_iterations} …")

    async def _update_questions(self) -> None:
        views = await self.client.list_approvals(session=self.session)
        waiting = {(view.turn, view.call_id): view for view in views}
        for key in self._open - waiting.keys():
            await self.close_question(*key)
        for key, view in waiting.items():
            if key not in self._open:
                await self.open_question(view, "")
