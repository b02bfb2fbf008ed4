"""aidaemon eval."""

import argparse
import asyncio
import json
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from daemon.app.connect import connect
from daemon.cli.chat import fetch_model
from daemon.cli.evaluation.capture import capture
from daemon.cli.evaluation.report import render_report, report_to_json
from daemon.cli.evaluation.runner import CaseResult, Evaluation
from daemon.cli.parsing import Options
from daemon.cli.review.runs import get_width
from daemon.cli.terminal.plain import INTERRUPTED, run_interruptible
from daemon.core.errors import UsageError
from daemon.ops.evaluation.spec import EvalSpec, read_spec
from daemon.settings.paths import Paths

WHERE = "what ran is listed by `aidaemon runs`"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
OPTIONS: Options = {
    "SPEC": "the file with the cases (TOML)",
    "--agent NAME": "the agent of all cases that name none (default: that of SPEC)",
    "|": {
        "--json": "the results as a JSON object",
        "--capture TURN": "run nothing: add a case to SPEC, made of this run (id, begin, or: last)",
    },
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Run the cases, or add one; 1 when a check fails."""
    path = Path(args.spec)
    if args.capture is not None:
        if args.agent is not None:
            raise UsageError("--capture and --agent: give one of them; a case has its run's agent")
        print(asyncio.run(capture(paths, path, args.capture)))
        return 0
    spec = read_spec(path)
    if args.agent is not None:
        spec = spec.model_copy(update={"agent": args.agent})
    fetch_model(paths)
    return asyncio.run(_evaluate(args, paths, spec))


async def _evaluate(args: argparse.Namespace, paths: Paths, spec: EvalSpec) -> int:
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(connect(paths))
        if connection.notice:
            print(connection.notice, file=sys.stderr)
        evaluation = Evaluation(connection.client, spec)
        try:
            results = await run_interruptible(evaluation.run(), evaluation.stop, SIGNALS)
        except BaseException:
            done = f"{len(evaluation.results)} of {len(spec.cases)} cases"
            if evaluation.has_begun:
                print(f"The evaluation broke off after {done}; {WHERE}.", file=sys.stderr)
            raise
    _print(args, spec, results)
    if evaluation.interrupted:
        return INTERRUPTED
    return int(not all(one.passed for one in results))


def _print(args: argparse.Namespace, spec: EvalSpec, results: list[CaseResult]) -> None:
    if args.json:
        print(json.dumps(report_to_json(args.spec, spec, results), ensure_ascii=False))
    else:
        print(render_report(spec, results, get_width(), colors=sys.stdout.isatty()))
