"""aidaemon schedule: what begins by itself at its time, as /schedule in a chat."""

import argparse
import asyncio
import json

from daemon.cli.parsing import TERMINAL, Actions, send_command
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths

UNKNOWN, EMPTY = "There is no schedule", "Nothing is scheduled."
USAGE = 'aidaemon schedule add "weekdays at 7:30" "sum up the news" makes one.'
GIVEN = ("remind", "name", "zone", "session", "misfire", "oneshot", "until", "agent")
NAME = {"NAME": "the schedule, or its id"}
ACTIONS: Actions = {
    "list": ("what is scheduled", {"--json": "as a JSON list"}),
    "add": (
        "do a task at its time",
        {
            "WHEN": 'such as "tomorrow at 9:00", "weekdays at 7:30" or "0 8 * * 1-5"',
            "TASK": "what to do then",
            "--remind": "tell you the TASK then, as it is: no model is asked",
            "--name NAME": "its name (default: from the task)",
            "--zone ZONE": "its time zone (default: [scheduler] timezone)",
            "--session ID": {
                "default": TERMINAL,
                "help": "the conversation that is told and asked (default: terminal:main)",
            },
            "--misfire": {
                "choices": ("once", "all", "skip"),
                "default": "once",
                "help": "times that passed while the daemon was off (default: once)",
            },
            "--oneshot": "only the first time",
            "--jitter SECONDS": {"type": int, "default": 0, "help": "begin up to so much later"},
            "--until TIME": {"default": "", "help": "no run after this time"},
            "--agent NAME": {"default": "default", "help": "the agent that does it"},
        },
    ),
    "show": ("all about one, and its latest runs", NAME),
    "run": ("run it once more, now", NAME),
    "pause": ("do not run it until it is resumed", NAME),
    "resume": ("go on with it", NAME),
    "change": (
        "another time or another task",
        {
            **NAME,
            "[WHEN]": {"default": "", "help": "as with add; without it the time stays"},
            "--task TASK": {"default": "", "help": "what to do then"},
        },
    ),
    "cancel": ("remove it; also: remove", NAME),
    "remove": ("remove it", NAME),
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it; an error where nothing was changed."""
    print(asyncio.run(_run(args, paths)))
    return 0


async def _run(args: argparse.Namespace, paths: Paths) -> str:
    from daemon.app.connect import connect
    from daemon.triggers.orders import ScheduleOrder

    if args.action == "list" and args.json:
        async with connect(paths) as opened:
            return json.dumps(await opened.client.list_schedules(), ensure_ascii=False)
    if args.action == "add":
        given = {name: getattr(args, name) for name in GIVEN if getattr(args, name) is not None}
        order = ScheduleOrder(rule=args.when, prompt=args.task, jitter_s=args.jitter, **given)
        async with connect(paths) as opened:
            return await opened.client.add_schedule(order)
    words = f"/schedule {args.action} {getattr(args, 'name', '')}".strip()
    if args.action == "change":
        words += f" {args.when}" + (f": {args.task}" if args.task else "")
    reply = await send_command(paths, words)
    if reply.startswith(EMPTY):
        return f"{EMPTY}\n{USAGE}"
    if reply.startswith(UNKNOWN):
        raise AidaemonError(reply.replace("/schedule lists", "aidaemon schedule list shows"))
    return reply.replace("/schedule show NAME", "aidaemon schedule show NAME")
