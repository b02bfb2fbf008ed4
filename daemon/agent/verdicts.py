"""A final text is held against what was asked for before anybody is told (E10, F6, D2, D3, D4)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import takewhile

from daemon.agent.claims.claims import correction, false_claims, honest_line
from daemon.agent.context import Scene
from daemon.agent.halts.confidence import low_confidence
from daemon.agent.money.questions import REVIEW, house_question
from daemon.agent.reflect import Reflect
from daemon.agent.specs.schema import schema_faults, told_faults
from daemon.agent.verify import Verify, named
from daemon.core.clock import Clock
from daemon.core.events import ApprovalAsked, ChildReturned, Coached, Event, ModelReplied, Recorded, TurnEnded, Verified
from daemon.core.outcomes import Answer, Stop
from daemon.core.terms import Check, Intent
from daemon.core.turn import Turn

CLAIMS, SCHEMA, VERIFY = "claims", "schema", "verify"
MOST_ROUNDS = 3
REVIEW_HOURS = 24
AGAIN = 'Your answer does not hold against the check "{check}". {feedback}\nPut it right, then answer again.'
FAILED = '(The check "{check}" did not pass: {feedback})'
MISFIT = "(This answer does not have the form that it must have: {faults})"
UNCHECKED = "(It ended before this could be checked: {checks})"
NOBODY = "nobody looked at the answer in time"
NOT_CONTENT = "The user is not content with it."


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Every check in turn: the first that fails has the model try again; the last word is honest about what did not pass.

    Each is made once for each reply; what was found out is an event, so that nothing is done twice after a crash.
    """

    verify: Verify
    reflect: Reflect
    clock: Clock
    new_token: Callable[[], str]

    async def judge(self, turn: Turn, scene: Scene, end: TurnEnded | None = None) -> Sequence[Event]:
        """What follows: an end, a correction for the model, or a question to a person. Never nothing.

        `end` is one that was declared, or that other agents came to; without it the reply itself is the end.
        """
        text = end.reply if end else final_text(turn)
        looks = (self._schema,) if end else (self._confidence, self._schema, self._claims)
        events = next((events for look in looks if (events := look(turn, text)) is not None), None)
        for check in turn.terms.checks:
            events = events or await self._check(check, turn, scene, text)
        events = events or [end or TurnEnded(Stop.DONE, "", text)]
        worked = turn.reply is not None and turn.intent is not Intent.TRIVIAL
        if isinstance(events[-1], TurnEnded) and turn.terms.reflect and worked:
            await self.reflect.reflect(turn, scene)
        return events

    def honest(self, turn: Turn, end: TurnEnded) -> TurnEnded:
        """The end with what is to be known of its text: claims that nothing shows, checks that were not passed (F6, E10).

        Where the text must have a form, it stays as it is and the end's detail says so.
        """
        text = final_text(turn)
        if not text or text not in end.reply:
            return end
        notes = [note for note in (*_notes(turn), *_claimed(turn, text), *_unchecked(turn, end)) if note not in end.reply]
        if turn.terms.output_schema and end.reason in (Stop.DONE, Stop.CONDITION):
            return replace(end, detail=" ".join((end.detail, *notes)).strip())
        return replace(end, reply="\n\n".join((end.reply, *dict.fromkeys(notes))))

    def _confidence(self, turn: Turn, text: str) -> Sequence[Event] | None:
        hedged = low_confidence(turn)
        return [TurnEnded(Stop.LOW_CONFIDENCE, hedged.detail, text)] if hedged else None

    def _schema(self, turn: Turn, text: str) -> Sequence[Event] | None:
        """Its own output must fit; one correction, then it is an error that nothing helps (D3)."""
        faults = schema_faults(text, turn.terms.output_schema) if turn.terms.output_schema else []
        if not faults:
            return None
        found = Verified(SCHEMA, False, told_faults(faults))
        if turn.reply and SCHEMA not in turn.coached:
            return [found, Coached(SCHEMA, told_faults(faults))]
        told = "; ".join(faults)
        return [found, TurnEnded(Stop.FAILED, f"schema: {told}", f"{text}\n\n{MISFIT.format(faults=told)}")]

    def _claims(self, turn: Turn, text: str) -> Sequence[Event] | None:
        """A claim that no result shows: one correction; what is left of it then gets an honest line (F6)."""
        claims = false_claims(text, turn.past) if turn.terms.check_claims and CLAIMS not in turn.coached else ()
        return [Verified(CLAIMS, False, correction(claims)), Coached(CLAIMS, correction(claims))] if claims else None

    async def _check(self, check: Check, turn: Turn, scene: Scene, text: str) -> Sequence[Event] | None:
        if check.kind == "manual":
            return self._review(check, turn, scene, text)
        if any(one.check == named(check) and (one.passed or one.note) for one in since_reply(turn)):
            return None
        await turn.commit()  # the reply has cost something, and a check may take a minute
        verified = await self.verify.holds(check, turn, scene, text)
        return [verified] if verified.passed or verified.note else self._again(turn, verified, text)

    def _again(self, turn: Turn, verified: Verified, text: str) -> Sequence[Event]:
        """To be put right, by the one who wrote it; where several agents did, nobody of them is there any more."""
        rounds = sum(isinstance(entry.event, Coached) and entry.event.kind == VERIFY for entry in turn.events)
        told = {"check": verified.check, "feedback": verified.feedback}
        if turn.reply and rounds < MOST_ROUNDS:
            return [verified, Coached(VERIFY, AGAIN.format(**told))]
        detail = f"the check {verified.check!r} did not pass"
        return [verified, TurnEnded(Stop.REJECTED, detail, f"{text}\n\n{FAILED.format(**told)}")]

    def _review(self, check: Check, turn: Turn, scene: Scene, text: str) -> Sequence[Event] | None:
        """A person looks at each answer: asked once per reply and check; a no is feedback, silence is the end."""
        nobody = [Verified(named(check), False, NOBODY), TurnEnded(Stop.REJECTED, NOBODY, f"{text}\n\n({NOBODY})")]
        before = [one for one in turn.terms.checks if one.kind == "manual"].index(check)
        name = f"review.{_latest(turn)}" + (f".{before}" if before else "")
        question = turn.questions.get(name)
        if question is None:
            return [self._question(name, check, text)] if scene.setting.askable else nobody
        if question.agreed:
            return None
        answered = question.answered
        if answered is None or answered.answer is Answer.EXPIRED:
            return nobody
        return self._again(turn, Verified(named(check), False, answered.reason or NOT_CONTENT), text)

    def _question(self, name: str, check: Check, text: str) -> ApprovalAsked:
        about = {"answer": text, "look_at": check.value} if check.value else {"answer": text}
        expires = self.clock.now() + timedelta(hours=REVIEW_HOURS)
        return house_question(name, REVIEW, about, self.new_token(), expires)


def sent_back(turn: Turn) -> bool:
    """The latest reply was found wanting, and the model has been told so."""
    return any(isinstance(entry.event, Coached) and entry.event.kind in (SCHEMA, VERIFY) for entry in _since(turn))


def since_reply(turn: Turn) -> list[Verified]:
    """What was found out about the latest reply, in that order."""
    return [entry.event for entry in reversed(list(_since(turn))) if isinstance(entry.event, Verified)]


def final_text(turn: Turn) -> str:
    """What is to be delivered; one that must have a form is the latest reply alone."""
    return turn.reply.text if turn.terms.output_schema and turn.reply else turn.answer


def _since(turn: Turn) -> Iterator[Recorded]:
    """The latest first."""
    return takewhile(lambda entry: not isinstance(entry.event, ModelReplied), reversed(turn.events))


def _latest(turn: Turn) -> int:
    """The place of the text that is judged: the latest reply, or the last word of another agent."""
    replied = (entry.seq for entry in reversed(turn.events) if isinstance(entry.event, ModelReplied | ChildReturned))
    return next(replied, 0)


def _notes(turn: Turn) -> list[str]:
    return [one.note for one in since_reply(turn) if one.note]


def _claimed(turn: Turn, text: str) -> list[str]:
    claims = false_claims(text, turn.past) if turn.terms.check_claims else ()
    return [honest_line(claims)] if claims else []


def _unchecked(turn: Turn, end: TurnEnded) -> list[str]:
    """A turn that was cut has not been held against everything, or did not come to put it right."""
    if end.reason in (Stop.DONE, Stop.CONDITION, Stop.REJECTED, Stop.FAILED):
        return []
    found = {one.check: one for one in since_reply(turn)}
    names = [named(check) for check in turn.terms.checks]
    failed = [one for name in names if (one := found.get(name)) and not one.passed and not one.note]
    left = [name for name in names if name not in found]
    told = [FAILED.format(check=one.check, feedback=one.feedback) for one in failed]
    return [*told, UNCHECKED.format(checks=", ".join(left))] if left else told
