"""Runs the cases of an evaluation one after the other, each in a session of its own."""

import sys
from dataclasses import dataclass, field
from functools import partial

from channels.markup.sanitize import shorten_line
from daemon.cli.terminal.follower import NOBODY_ANSWERS, AutoAnswer
from daemon.cli.terminal.items import ApprovalQuestion
from daemon.cli.terminal.plain import LineReader, PlainChat, PlainScreen
from daemon.client.protocol import DaemonClient
from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.core.ids import new_id, new_trial_session
from daemon.core.trust import Answer
from daemon.ops.evaluation.checks import CheckResult, Extraction, check_case, extract
from daemon.ops.evaluation.judge import Judge
from daemon.ops.evaluation.spec import EvalCase, EvalSpec

NAME_CHARS = 60


@value
class CaseRun:
    """One run of a case. `usd` is what it and its judge cost; None where a price is unknown."""

    turn: str
    extraction: Extraction
    usd: float | None
    checks: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """All of its checks passed."""
        return all(one.passed for one in self.checks)


@value
class CaseResult:
    """A case with all its runs, in order; it passed if each of them did."""

    case: EvalCase
    runs: tuple[CaseRun, ...]

    @property
    def passed(self) -> bool:
        """Each run passed."""
        return all(one.passed for one in self.runs)

    @property
    def shown(self) -> CaseRun:
        """The run that tells most: the first that failed, else the last."""
        return next((one for one in self.runs if not one.passed), self.runs[-1])

    @property
    def usd(self) -> float | None:
        """Of all runs."""
        spent = [one.usd for one in self.runs if one.usd is not None]
        return sum(spent) if len(spent) == len(self.runs) else None


@dataclass(slots=True, kw_only=True)
class CaseFollower(PlainChat):
    """Follows one case; nobody is there, so every question is answered with no."""

    async def run_case(self, prompt: str) -> str:
        """The turn, once it has ended."""
        async with self.follow_subagents() as group:
            polling = group.create_task(self._poll())
            sent = await self.client.send(self.session, prompt, new_id(), stream=False)
            turn = sent.turn or sent.steered
            if not turn:
                raise AidaemonError(f"the message was not taken as one for an agent: {sent.reply}")
            await self.follow(turn)
            polling.cancel()
        return turn

    async def show_question(self, question: ApprovalQuestion) -> None:
        """Deny it; the run goes on."""
        await self.screen.show(question)
        await self.send_answer(question, (Answer.DENY, NOBODY_ANSWERS))


@dataclass(slots=True)
class Evaluation:
    """All cases, one after the other. `results` are those that are done."""

    client: DaemonClient
    spec: EvalSpec
    results: list[CaseResult] = field(default_factory=list)
    interrupted: bool = False
    _follower: CaseFollower | None = None

    @property
    def has_begun(self) -> bool:
        """A case runs, or has run."""
        return self._follower is not None

    async def run(self) -> list[CaseResult]:
        """Run them. An agent that cannot be used is told before anything runs: UsageError."""
        sessions = [await self._open_session(case) for case in self.spec.cases]
        for at, case in enumerate(self.spec.cases, 1):
            count = case.repeat or self.spec.repeat
            runs: list[CaseRun] = []
            for number in range(1, count + 1):
                again = f", run {number} of {count}" if count > 1 else ""
                name = shorten_line(case.name, NAME_CHARS)
                _print_status(f"case {at} of {len(self.spec.cases)}: {name}{again} …")
                session = await self._open_session(case) if runs else sessions[at - 1]
                done = await self._run_case(case, session)
                if self.interrupted:
                    return self.results
                runs.append(done)
                _print_status("  passed" if done.passed else "  failed")
            self.results.append(CaseResult(case, tuple(runs)))
        return self.results

    async def stop(self) -> None:
        """Ctrl-C: stop the case that runs, and begin no other."""
        self.interrupted = True
        if self._follower:
            await self._follower.stop()

    async def _open_session(self, case: EvalCase) -> str:
        session = new_trial_session("eval")
        await self.client.set_agent(session, case.agent or self.spec.agent)
        return session

    async def _run_case(self, case: EvalCase, session: str) -> CaseRun:
        self._follower = CaseFollower(
            client=self.client,
            session=session,
            auto=AutoAnswer(Answer.DENY),
            can_ask=False,
            screen=PlainScreen(sys.stderr, sys.stderr),
            lines=LineReader(sys.stdin.fileno()),
        )
        turn = await self._follower.run_case(case.prompt)
        view = await self.client.get_run(turn)
        transcript = await self.client.get_transcript(turn)
        if view is None:
            raise AidaemonError(f"run {turn} is gone from the journal")
        extraction = extract(transcript, view.iterations)
        judge = Judge(partial(self.client.ask_judge, session))
        checks = () if self.interrupted else await check_case(case, extraction, judge.judge)
        parts = view.tree.usd, judge.usd
        usd = None if None in parts else sum(one or 0.0 for one in parts)
        return CaseRun(turn, extraction, usd, tuple(checks))


def _print_status(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
