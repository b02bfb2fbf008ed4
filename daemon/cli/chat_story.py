"""How the events of a run become lines on a screen. Pure: events in, finished items out, and what it is doing now."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from channels.terminal_items import Activity, Correction, Draft, Errand, Item, Note, Spoken, Step, Trouble
from channels.terminal_text import call_text, one_line
from daemon.cli.chat_words import (
    ANSWERS,
    ERRORS,
    FAILED,
    REFUSALS,
    Data,
    ended_of,
    number_of,
    outcome,
    plan_of,
    plan_words,
    raised_words,
    running,
    text_of,
)
from daemon.door.base import LiveEvent
from daemon.loops.questions import HouseQuestion, house_question

TAIL, CALL = 2000, 160
SENT_BACK = {
    "claims": "nothing that was done here bears it out",
    "schema": "it has not the form that was asked for",
    "verify": "{check} does not hold",
}


@dataclass(slots=True)
class Story:
    """One run, as it is told. `activity` is what moves on the screen."""

    activity: Activity = field(default_factory=Activity)
    now: Callable[[], float] = time.monotonic
    ended: Data | None = None
    _calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    _house: dict[str, HouseQuestion] = field(default_factory=dict)
    _errands: dict[str, Errand] = field(default_factory=dict)
    _background: set[str] = field(default_factory=set)
    _failed_check: str = ""
    _answer: str = ""
    _printed: str = ""
    _refused: set[str] = field(default_factory=set)
    _misled: bool = False
    _partial: bool = False
    _ending: str = ""

    def take(self, event: LiveEvent) -> list[Item]:
        """What is to be shown for good after this event."""
        told = TELLERS.get(event.name)
        return told(self, event.data) if told else []

    def _does(self, what: str) -> None:
        self.activity.doing, self.activity.since, self.activity.output = what, self.now(), ""
        self._printed = ""

    def _cycle(self, data: Data) -> list[Item]:
        items = self._set_aside()
        self.activity.draft, self._partial = "", False
        self._does("thinking")
        return items

    def _delta(self, data: Data) -> list[Item]:
        if not self.activity.draft:
            self._does("writing")
        self.activity.draft += text_of(data, "text")
        self._partial = True
        return []

    def _reset(self, data: Data) -> list[Item]:
        self.activity.draft, self._partial = "", False
        self._does("thinking")
        return []

    def _retry(self, data: Data) -> list[Item]:
        self.activity.draft, self._partial = "", False
        error = text_of(data, "error")
        why = ERRORS.get(error, error.replace("_", " ")) or "it failed"
        wait, model = number_of(data, "wait_s"), text_of(data, "next_model")
        self._does(f"waiting {wait:.3g} s: {why}, trying again" if wait else f"{why}, trying {model or 'again'}")
        return []

    def _response(self, data: Data) -> list[Item]:
        text, self._partial = text_of(data, "text"), False
        if not data.get("tool_calls"):
            self._answer = self.activity.draft = text
            return []
        self.activity.draft = ""
        return [Spoken(text, interim=True)] if text.strip() else []

    def _verified(self, data: Data) -> list[Item]:
        if not data.get("passed"):
            self._failed_check = text_of(data, "check")
        return []

    def _coached(self, data: Data) -> list[Item]:
        """An answer that does not hold goes back to the model; the person is told why another one comes (E12)."""
        items, why = self._set_aside(), SENT_BACK.get(text_of(data, "kind"), "")
        if self._failed_check == "manual":
            return items  # the person has just said so
        return [*items, Note(f"sent back: {why.format(check=one_line(self._failed_check or 'a check', 100))}")] if why else items

    def _steered(self, data: Data) -> list[Item]:
        """A full answer, then more words of the person: the answer stands, another one follows."""
        answer, self._answer, self.activity.draft = self._answer, "", ""
        return [Spoken(answer, interim=True)] if answer.strip() else []

    def _set_aside(self) -> list[Item]:
        answer, self._answer, self.activity.draft = self._answer, "", ""
        self._misled |= bool(answer.strip())
        return [Draft(answer)] if answer.strip() else []

    def _called(self, data: Data) -> list[Item]:
        self._calls[text_of(data, "call_id")] = (text_of(data, "tool"), text_of(data, "arguments"))
        return []

    def _started(self, data: Data) -> list[Item]:
        self._does(running(*self._calls.get(text_of(data, "call_id"), (text_of(data, "tool"), ""))))
        return []

    def _output(self, data: Data) -> list[Item]:
        self._printed = (self._printed + text_of(data, "text"))[-TAIL:]
        self.activity.output = self._printed.rstrip().rpartition("\n")[2]
        return []

    def _tool_retry(self, data: Data) -> list[Item]:
        why = one_line(text_of(data, "error"), 60)
        self._does(f"waiting {number_of(data, 'wait_s'):.3g} s: {why}, trying again")
        return []

    def _result(self, data: Data) -> list[Item]:
        call_id = text_of(data, "call_id")
        tool, arguments = self._calls.get(call_id, (text_of(data, "tool"), ""))
        self.activity.output = ""
        if errand := self._errands.pop(call_id, None):
            ended = ended_of(text_of(data, "text")) or (outcome(data), "")
            self._wait_for_agents()
            return [] if call_id in self._background else [replace(errand, ended=ended[0], answer=ended[1])]
        kept_in_view = tool == "todo" and not data.get("is_error")
        return [] if call_id in self._refused or kept_in_view else [Step(call_text(tool, arguments, CALL), outcome(data))]

    def _results(self, data: Data) -> list[Item]:
        self._does("thinking")
        return []

    def _asked(self, data: Data) -> list[Item]:
        self._does("waiting for your answer")
        if house := house_question(text_of(data, "tool"), text_of(data, "arguments")):
            self._house[text_of(data, "call_id")] = house
            if house.text:
                self._answer = self.activity.draft = ""  # the question shows it whole
        return []

    def _answered(self, data: Data) -> list[Item]:
        call_id, answer, reason = text_of(data, "call_id"), text_of(data, "answer"), text_of(data, "reason")
        why = f" ({one_line(reason, 80)})" if reason else ""
        self._does("thinking")
        if house := self._house.get(call_id):
            short = {"deny": "no", "expired": "nobody answered in time"}.get(answer, "yes")
            goes_on = short == "yes" and not house.text  # that is told by what follows from it
            return [] if goes_on else [Note(f"{house.title} {short}{why}")]
        tool, arguments = self._calls.get(call_id, ("", ""))
        said = ANSWERS.get(answer, REFUSALS.get(answer, answer))
        if answer in REFUSALS:
            self._refused.add(call_id)
        return [Note(f"{said}: {call_text(tool, arguments)}{why}")]

    def _planned(self, data: Data) -> list[Item]:
        self.activity.plan = plan_of(data)
        return [Step("plan", plan_words(self.activity.plan))]

    def _agent_began(self, data: Data) -> list[Item]:
        key, errand = text_of(data, "key"), Errand(text_of(data, "agent"), text_of(data, "task"))
        self._errands[key] = errand
        if data.get("background"):
            self._background.add(key)
        self._wait_for_agents()
        return [errand]

    def _wait_for_agents(self) -> None:
        waits = [errand.agent for key, errand in self._errands.items() if key not in self._background]
        if waits:
            self._does(f"waiting for agent {waits[0]}" if len(waits) == 1 else f"waiting for {len(waits)} agents")

    def _agent_ended(self, data: Data) -> list[Item]:
        errand = self._errands.pop(text_of(data, "key"), None) or Errand(text_of(data, "key"), "")
        self._wait_for_agents()
        return [replace(errand, ended=text_of(data, "stop_reason").replace("_", " "), answer=text_of(data, "text"))]

    def _compressed(self, data: Data) -> list[Item]:
        before, after = number_of(data, "tokens_before"), number_of(data, "tokens_after")
        return [Note(f"the conversation got long: {before:,.0f} → {after:,.0f} tokens are shown to the model")]

    def _raised(self, data: Data) -> list[Item]:
        return [Note(f"goes on, {raised_words(data)}")]

    def _extended(self, data: Data) -> list[Item]:
        return [Note(f"goes on, up to {number_of(data, 'max_iterations'):.0f} steps: {one_line(text_of(data, 'reason'), 80)}")]

    def _terminated(self, data: Data) -> list[Item]:
        silent = text_of(data, "reason") in {"done", "cancelled", "failed", "rejected", ""}
        self._ending = "" if silent else text_of(data, "detail") or text_of(data, "reason").replace("_", " ")
        return []

    def _completed(self, data: Data) -> list[Item]:
        self.ended = data
        reason, reply, ending = text_of(data, "stop_reason"), text_of(data, "reply"), self._ending
        draft, partial = self.activity.draft, self._partial
        self.activity.doing = self.activity.draft = self.activity.output = ""
        self.activity.plan = ()
        if reason in FAILED:
            return [Trouble(reply or ending or "The message could not be answered; it is kept in the journal.")]
        items = _closing(reply, draft, partial, misled=self._misled and reason != "cancelled")
        return [*items, Note(f"stopped: {ending}")] if ending and ending not in reply else items


def _closing(reply: str, draft: str, partial: bool, misled: bool) -> list[Item]:
    """The reply, after the draft where the draft was something else; a draft that was seen whole is corrected (E12)."""
    seen, said = draft.strip(), reply.strip()
    kept = not seen or seen == said or said.startswith(seen if partial else seen + "\n")
    items: list[Item] = [] if kept else [Draft(draft)]
    wrong = misled or not (kept or partial)
    return [*items, Correction(reply) if wrong else Spoken(reply)] if said else items


TELLERS: Mapping[str, Callable[[Story, Data], list[Item]]] = {
    "cycle.start": Story._cycle,
    "model.delta": Story._delta,
    "model.reset": Story._reset,
    "model.retry": Story._retry,
    "model.response": Story._response,
    "tool_call": Story._called,
    "tool.started": Story._started,
    "tool.output": Story._output,
    "tool.retry": Story._tool_retry,
    "tool_result": Story._result,
    "tool.results": Story._results,
    "approval.asked": Story._asked,
    "approval.answered": Story._answered,
    "steered": Story._steered,
    "coached": Story._coached,
    "budget.extended": Story._extended,
    "budget.raised": Story._raised,
    "todos": Story._planned,
    "verified": Story._verified,
    "history.compressed": Story._compressed,
    "agent.started": Story._agent_began,
    "agent.ended": Story._agent_ended,
    "run.terminated_by": Story._terminated,
    "run.completed": Story._completed,
}
