"""A final text is held against what was asked for before anybody is told (E10, F6, D2, D3, D4)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile

from daemon.agent.claims import correction, false_claims, honest_line
from daemon.agent.confidence import low_confidence
from daemon.agent.context import Scene
from daemon.agent.questions import REVIEW, house_question
from daemon.agent.reflect import Reflect
from daemon.agent.schema import schema_fault
from daemon.agent.verify import Verify
from daemon.core.clock import Clock
from daemon.core.events import ApprovalAsked, Coached, Event, ModelReplied, TurnEnded, Verified
from daemon.core.outcomes import Stop
from daemon.core.terms import Check
from daemon.core.turn import Turn

CLAIMS, SCHEMA, VERIFY = "claims", "schema", "verify"
MOST_ROUNDS = 3
REVIEW_HOURS = 24
AGAIN = "Your answer does not hold against the check \"{check}\". {feedback}\nPut it right, then answer again."
FAILED = "(The check \"{check}\" did not pass: {feedback})"
NOBODY = "nobody looked at the answer in time"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Every check in turn: the first that fails has the model try again; the last word is honest about what did not pass."""

    verify: Verify
    reflect: Reflect
    clock: Clock
    new_token: Callable[[], str]

    async def judge(self, turn: Turn, scene: Scene) -> Sequence[Event]:
        """What follows: an end, a correction for the model, or a question to a person. Never nothing."""
        done = since_reply(turn)
        for look in (self._confidence, self._schema, self._claims):
            if (events := look(turn, done)) is not None:
                return events
        for check in turn.terms.checks:
            if (events := await self._check(check, turn, scene, done)) is not None:
                return events
        if turn.terms.reflect and not any(one.purpose == "reflection" for one in turn.consulted):
            await self.reflect.reflect(turn, scene)
        notes = [one.note for one in done if one.note]
        return [TurnEnded(Stop.DONE, "", "\n\n".join((turn.answer, *notes)))]

    def _confidence(self, turn: Turn, done: Sequence[Verified]) -> Sequence[Event] | None:
        hedged = low_confidence(turn)
        return [TurnEnded(Stop.LOW_CONFIDENCE, hedged.detail, turn.answer)] if hedged else None

    def _schema(self, turn: Turn, done: Sequence[Verified]) -> Sequence[Event] | None:
        """Its own output must fit; one correction, then it is an error that nothing helps (D3)."""
        fault = schema_fault(turn.answer, turn.terms.output_schema) if turn.terms.output_schema else ""
        if not fault:
            return None
        if SCHEMA not in turn.coached:
            return [Verified(SCHEMA, False, fault), Coached(SCHEMA, fault)]
        return [Verified(SCHEMA, False, fault), TurnEnded(Stop.FAILED, f"schema: {fault}", turn.answer)]

    def _claims(self, turn: Turn, done: Sequence[Verified]) -> Sequence[Event] | None:
        """A claim that no result shows: one correction, then an honest line (F6)."""
        if not turn.terms.check_claims or any(one.check == CLAIMS for one in done):
            return None
        claims = false_claims(turn.answer, turn.past)
        if not claims:
            return None
        if CLAIMS not in turn.coached:
            return [Verified(CLAIMS, False, correction(claims)), Coached(CLAIMS, correction(claims))]
        return [Verified(CLAIMS, False, note=honest_line(claims))]

    async def _check(self, check: Check, turn: Turn, scene: Scene, done: Sequence[Verified]) -> Sequence[Event] | None:
        if check.kind == "manual":
            return self._review(turn)
        verified = await self.verify.holds(check, turn, scene)
        if verified.passed:
            known = any(one.check == verified.check for one in done)
            return None if known or not verified.note else [verified]
        return self._again(turn, verified)

    def _again(self, turn: Turn, verified: Verified) -> Sequence[Event]:
        rounds = sum(isinstance(entry.event, Coached) and entry.event.kind == VERIFY for entry in turn.events)
        if rounds < MOST_ROUNDS:
            return [verified, Coached(VERIFY, AGAIN.format(check=verified.check, feedback=verified.feedback))]
        note = FAILED.format(check=verified.check, feedback=verified.feedback)
        return [verified, TurnEnded(Stop.REJECTED, f"the check {verified.check!r} did not pass", f"{turn.answer}\n\n{note}")]

    def _review(self, turn: Turn) -> Sequence[Event] | None:
        """A person looks at each answer: asked once per reply; a no is feedback, silence is the end."""
        name = f"review.{reply_seq(turn)}"
        question = turn.questions.get(name)
        if question is None:
            return [self._question(name, turn)]
        if question.agreed:
            return None
        answered = question.answered
        if answered is None or answered.answer.value == "expired":
            return [TurnEnded(Stop.REJECTED, NOBODY, f"{turn.answer}\n\n({NOBODY})")]
        return self._again(turn, Verified("manual", False, answered.reason or "The user is not content with it."))

    def _question(self, name: str, turn: Turn) -> ApprovalAsked:
        expires = self.clock.now() + timedelta(hours=REVIEW_HOURS)
        return house_question(name, REVIEW, {"answer": turn.answer}, self.new_token(), expires)


def since_reply(turn: Turn) -> list[Verified]:
    """What was found out about the latest reply."""
    later = takewhile(lambda entry: not isinstance(entry.event, ModelReplied), reversed(turn.events))
    return [entry.event for entry in later if isinstance(entry.event, Verified)]


def reply_seq(turn: Turn) -> int:
    """The place of the latest reply."""
    return next(entry.seq for entry in reversed(turn.events) if isinstance(entry.event, ModelReplied))
