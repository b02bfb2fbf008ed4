"""Several agents at one task: in sequence, in parallel, in a debate, or in rounds until it is done
(B11).

`CompositePlan` is pure: the same results give the same next steps, before a crash and after it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from daemon.agent.context.builder import TurnContext
from daemon.agent.subagents.manager import SubagentManager, has_succeeded, remaining_caps
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.events import ChildReturned, TurnEnded, UserSaid
from daemon.core.messages import MessageRole
from daemon.core.trust import Stop
from daemon.core.turn import Turn
from daemon.core.turn_spec import Composite
from daemon.tools.calls import truncate_middle

JUDGE = "judge"
JUDGE_PROMPT = "Weigh these answers against each other and give the one final answer to the task."
REVISE_PROMPT = (
    "Answer again in the light of what the others say: keep what is right, correct what is not."
)
DECORATION = " \t\r\n.!:*_`\"'()[]<>-"
RECENT_MESSAGES, MAX_MESSAGE_CHARS = 6, 800
TASK_IN_CONTEXT = "<conversation>\n{said}\n</conversation>\nThe user now says:\n{text}"
TOO_DEEP = (
    "I cannot begin: agents may be nested {most} deep (max_depth in [subagents]), and I"
    " am that deep."
)

Answers = Sequence[tuple[str, ChildReturned]]


@value
class CompositeStep:
    """A child to start: its key in the turn, its agent, its task."""

    key: str
    agent: str
    task: str


@value
class CompositePlan:
    """What a composite does next for `task`, from the `results` of its steps so far."""

    composite: Composite
    task: str
    results: Mapping[str, ChildReturned]

    def next_steps(self) -> Sequence[CompositeStep] | TurnEnded:
        """All that can start now, or the end."""
        match self.composite.strategy:
            case "parallel":
                return self._next_parallel()
            case "debate":
                return self._next_debate()
            case "sequential" | "iterative":
                return self._next_sequential()

    def list_keys(self) -> list[str]:
        """Of all steps that there can be, in order."""
        members = range(len(self.composite.members))
        rounds = [_key(number, n) for number in range(self._round_count()) for n in members]
        has_judge = self.composite.strategy == "debate" and self.composite.judge
        return [*rounds, JUDGE] if has_judge else rounds

    def budget_share(self) -> float:
        """The part of the remaining budget that each of the next steps may use, so that enough is
        left for the later ones.
        """
        return 1 / max(1, sum(key not in self.results for key in self.list_keys()))

    def partial_answers(self) -> str:
        """The answers so far, for a composite that was cut."""
        done = self._list_done(self.list_keys())
        return _render_answers([one for one in done if has_succeeded(one[1])])

    def _next_parallel(self) -> Sequence[CompositeStep] | TurnEnded:
        steps = [self._step(0, n) for n in range(len(self.composite.members))]
        if missing := [step for step in steps if step.key not in self.results]:
            return missing
        done = self._list_done(step.key for step in steps)
        if not any(has_succeeded(result) for _, result in done):
            return _end_without_answer(done)
        return TurnEnded(Stop.DONE, _list_failures(done), _render_answers(done))

    def _next_sequential(self) -> Sequence[CompositeStep] | TurnEnded:
        """Each gets the answer before it; in rounds, the last answer of everybody, its own too."""
        until, size = self.composite.until, len(self.composite.members)
        visible = size if self.composite.strategy == "iterative" else 1
        done: list[tuple[str, ChildReturned]] = []
        for position, key in enumerate(self.list_keys()):
            if key not in self.results:
                return [self._step(*divmod(position, size), _render_answers(done[-visible:]))]
            name, result = self._name(key), self.results[key]
            text = result.text
            done.append((name, result))
            if not has_succeeded(result):
                failure = f"{name} failed ({result.stop}):\n{text}"
                return TurnEnded(Stop.FAILED, f"{name} ended {result.stop}", failure)
            if until and until in text:
                only_approves = not text.replace(until, "").strip(DECORATION)
                answer = done[-2][1].text if only_approves and position else text
                return TurnEnded(Stop.DONE, "", answer)
        if not until:
            return TurnEnded(Stop.DONE, "", done[-1][1].text)
        said = done[-1][1].text if visible == 1 else _render_answers(done[-visible:])
        why = f"{self._round_count()} rounds, and nobody said {until!r}"
        return TurnEnded(Stop.MAX_ITERATIONS, why, f"{said}\n\n(Not finished: {why}.)")

    def _next_debate(self) -> Sequence[CompositeStep] | TurnEnded:
        """An agent that fails leaves the debate; the last good answer of each counts. The judge
        has the last word, where there is one and it succeeds.
        """
        active = list(range(len(self.composite.members)))
        latest: dict[str, ChildReturned] = {}
        failed: list[tuple[str, ChildReturned]] = []
        for number in range(self._round_count()):
            steps: list[CompositeStep] = []
            for n in active:
                name = self._name(_key(number, n))
                own = f"## What you answered\n{latest[name].text}" if name in latest else ""
                others = _render_answers([one for one in latest.items() if one[0] != name])
                steps.append(self._step(number, n, own, others, REVISE_PROMPT if others else ""))
            if missing := [step for step in steps if step.key not in self.results]:
                return missing
            done = self._list_done(step.key for step in steps)
            failed += [one for one in done if not has_succeeded(one[1])]
            latest |= {name: result for name, result in done if has_succeeded(result)}
            active = [n for n in active if has_succeeded(self.results[_key(number, n)])]
            if len(active) < 2:
                break
        if not latest:
            return _end_without_answer(failed)
        judge, said = self.composite.judge, _render_answers([*latest.items()])
        if judge:
            if JUDGE not in self.results:
                return [CompositeStep(JUDGE, judge, "\n\n".join((self.task, said, JUDGE_PROMPT)))]
            if has_succeeded(self.results[JUDGE]):
                said = self.results[JUDGE].text
            else:
                failed += self._list_done([JUDGE])
        notes = [f"({name} ended {result.stop}: {result.text})" for name, result in failed]
        return TurnEnded(Stop.DONE, _list_failures(failed), "\n\n".join((said, *notes)))

    def _step(self, number: int, n: int, *before: str) -> CompositeStep:
        member = self.composite.members[n]
        task = "\n\n".join(filter(None, (member.brief, self.task, *before)))
        return CompositeStep(_key(number, n), member.agent, task)

    def _list_done(self, keys: Iterable[str]) -> Answers:
        results = self.results
        return [(self._name(key), results[key]) for key in keys if key in results]

    def _round_count(self) -> int:
        has_rounds = self.composite.strategy in ("debate", "iterative")
        return max(1, self.composite.rounds) if has_rounds else 1

    def _name(self, key: str) -> str:
        """What the member is called; an agent that occurs twice gets a number."""
        if key == JUDGE:
            return f"the judge, {self.composite.judge},"
        agents, n = [member.agent for member in self.composite.members], int(key.rpartition(".")[2])
        name = agents[n]
        return f"{name} {agents[: n + 1].count(name)}" if agents.count(name) > 1 else name


async def advance(
    turn: Turn, context: TurnContext, subagents: SubagentManager, now: Callable[[], datetime]
) -> TurnEnded | None:
    """Run the agents of a composite, each as a turn of its own with its share of the budget. The
    end, where all results are known; else None, once the next steps have run and are recorded.
    """
    composite, first = turn.spec.composite, turn.events[0].event
    if composite is None or not isinstance(first, UserSaid):
        return None
    speakers, task = {MessageRole.USER: "User", MessageRole.ASSISTANT: "Assistant"}, first.full_text
    recent = [
        f"{speakers[one.role]}: {truncate_middle(one.text, MAX_MESSAGE_CHARS)}"
        for one in context.history.messages
        if one.role in speakers and one.text
    ]
    if said := "\n".join(recent[-RECENT_MESSAGES:]):  # other agents know nothing of it
        task = TASK_IN_CONTEXT.format(said=said, text=task)
    plan = CompositePlan(composite, task, _results(turn))
    steps, most = plan.next_steps(), subagents.config.max_depth
    if isinstance(steps, TurnEnded):
        return steps
    if turn.spec.depth >= most:
        return TurnEnded(Stop.FAILED, "too deep", TOO_DEEP.format(most=most))
    spent = context.account.spent  # its children's too
    caps = remaining_caps(turn.limits, spent.input_tokens, spent.usd, plan.budget_share())
    try:
        spawned = [  # a child from before a crash is only waited for
            child.spawned
            if (child := turn.children.get(step.key))
            else subagents.spawn_event(turn, step.key, step.task, agent=step.agent, caps=caps)
            for step in steps
        ]
    except ConfigError as error:
        parts = (f"I cannot continue: {error}", render_partial_answers(turn))
        return TurnEnded(Stop.FAILED, "agent", "\n\n".join(filter(None, parts)))
    for event in spawned:
        if event.key not in turn.children:
            turn.record(event, now())
    await turn.commit()
    waiting = [asyncio.ensure_future(subagents.wait_for_result(turn, event)) for event in spawned]
    try:
        for coming in asyncio.as_completed(waiting):
            turn.record(await coming, now())
            await turn.commit()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return None


def render_partial_answers(turn: Turn) -> str:
    """The answers so far, for a composite that was cut."""
    composite = turn.spec.composite
    return CompositePlan(composite, "", _results(turn)).partial_answers() if composite else ""


def _results(turn: Turn) -> dict[str, ChildReturned]:
    return {key: child.returned for key, child in turn.children.items() if child.returned}


def _key(number: int, n: int) -> str:
    return f"round.{number}.agent.{n}"


def _render_answers(done: Answers) -> str:
    how = (
        (name, "answered" if has_succeeded(one) else f"ended {one.stop} and said", one.text)
        for name, one in done
    )
    return "\n\n".join(f"## What {name} {verb}\n{text}" for name, verb, text in how)


def _end_without_answer(done: Answers) -> TurnEnded:
    text = f"No agent came to an answer.\n\n{_render_answers(done)}"
    return TurnEnded(Stop.FAILED, "no agent came to an answer", text)


def _list_failures(done: Answers) -> str:
    return ", ".join(f"{name} ended {one.stop}" for name, one in done if not has_succeeded(one))
