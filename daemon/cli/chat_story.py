"""How the events of a run become lines on a screen. Pure: events in, finished items out, and what it is doing now."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from channels.terminal_items import Activity, Correction, Draft, Item, Note, Spoken, Step, Trouble
from channels.terminal_text import call_text, one_line
from daemon.door.base import LiveEvent

Data = Mapping[str, object]
TAIL, CALL = 2000, 160

ERRORS = {
    "auth": "the key was refused",
    "billing": "no credit left",
    "rate_limit": "rate limited",
    "overloaded": "the model is overloaded",
    "timeout": "no answer in time",
    "network": "no connection",
    "server": "the server failed",
    "malformed": "the answer was garbled",
    "not_found": "no such model",
    "context_too_long": "too long for this model",
    "bad_request": "the request was refused",
}
FAILED = {"failed", "quarantined"}
ANSWERS = {"once": "allowed once", "session": "allowed for this session", "always": "always allowed from now on"}
REFUSALS = {"deny": "not allowed", "expired": "nobody answered in time, not allowed"}


@dataclass(slots=True)
class Story:
    """One run, as it is told. `activity` is what moves on the screen."""

    activity: Activity = field(default_factory=Activity)
    now: Callable[[], float] = time.monotonic
    ended: Data | None = None
    _calls: dict[str, tuple[str, str]] = field(default_factory=dict)
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
        self.activity.draft += _text(data, "text")
        self._partial = True
        return []

    def _reset(self, data: Data) -> list[Item]:
        self.activity.draft, self._partial = "", False
        self._does("thinking")
        return []

    def _retry(self, data: Data) -> list[Item]:
        self.activity.draft, self._partial = "", False
        error = _text(data, "error")
        why = ERRORS.get(error, error.replace("_", " ")) or "it failed"
        wait, model = _number(data, "wait_s"), _text(data, "next_model")
        self._does(f"waiting {wait:.3g} s: {why}, trying again" if wait else f"{why}, trying {model or 'again'}")
        return []

    def _response(self, data: Data) -> list[Item]:
        text, self._partial = _text(data, "text"), False
        if not data.get("tool_calls"):
            self._answer = self.activity.draft = text
            return []
        self.activity.draft = ""
        return [Spoken(text, interim=True)] if text.strip() else []

    def _coached(self, data: Data) -> list[Item]:
        return self._set_aside()

    def _steered(self, data: Data) -> list[Item]:
        """A full answer, then more words of the person: the answer stands, another one follows."""
        answer, self._answer, self.activity.draft = self._answer, "", ""
        return [Spoken(answer, interim=True)] if answer.strip() else []

    def _set_aside(self) -> list[Item]:
        answer, self._answer, self.activity.draft = self._answer, "", ""
        self._misled |= bool(answer.strip())
        return [Draft(answer)] if answer.strip() else []

    def _called(self, data: Data) -> list[Item]:
        self._calls[_text(data, "call_id")] = (_text(data, "tool"), _text(data, "arguments"))
        return []

    def _started(self, data: Data) -> list[Item]:
        self._does(running(*self._calls.get(_text(data, "call_id"), (_text(data, "tool"), ""))))
        return []

    def _output(self, data: Data) -> list[Item]:
        self._printed = (self._printed + _text(data, "text"))[-TAIL:]
        self.activity.output = self._printed.rstrip().rpartition("\n")[2]
        return []

    def _tool_retry(self, data: Data) -> list[Item]:
        why = one_line(_text(data, "error"), 60)
        self._does(f"waiting {_number(data, 'wait_s'):.3g} s: {why}, trying again")
        return []

    def _result(self, data: Data) -> list[Item]:
        call_id = _text(data, "call_id")
        tool, arguments = self._calls.get(call_id, (_text(data, "tool"), ""))
        self.activity.output = ""
        if call_id in self._refused:
            return []
        return [Step(call_text(tool, arguments, CALL), outcome(data))]

    def _results(self, data: Data) -> list[Item]:
        self._does("thinking")
        return []

    def _asked(self, data: Data) -> list[Item]:
        self._does("waiting for your answer")
        return []

    def _answered(self, data: Data) -> list[Item]:
        call_id, answer, reason = _text(data, "call_id"), _text(data, "answer"), _text(data, "reason")
        tool, arguments = self._calls.get(call_id, ("", ""))
        said = ANSWERS.get(answer, REFUSALS.get(answer, answer))
        if answer in REFUSALS:
            self._refused.add(call_id)
        self._does("thinking")
        return [Note(f"{said}: {call_text(tool, arguments)}" + (f" ({one_line(reason, 80)})" if reason else ""))]

    def _extended(self, data: Data) -> list[Item]:
        return [Note(f"goes on, up to {_number(data, 'max_iterations'):.0f} steps: {one_line(_text(data, 'reason'), 80)}")]

    def _terminated(self, data: Data) -> list[Item]:
        silent = _text(data, "reason") in {"done", "cancelled", "failed", "rejected", ""}
        self._ending = "" if silent else _text(data, "detail") or _text(data, "reason").replace("_", " ")
        return []

    def _completed(self, data: Data) -> list[Item]:
        self.ended = data
        reason, reply, ending = _text(data, "stop_reason"), _text(data, "reply"), self._ending
        draft, partial = self.activity.draft, self._partial
        self.activity.doing = self.activity.draft = self.activity.output = ""
        if reason in FAILED:
            return [Trouble(reply or ending or "The message could not be answered; it is kept in the journal.")]
        items = _closing(reply, draft, partial, misled=self._misled and reason != "cancelled")
        return [*items, Note(f"stopped: {ending}")] if ending and ending not in reply else items


def _closing(reply: str, draft: str, partial: bool, misled: bool) -> list[Item]:
    """The reply, after the draft where the draft was something else; a draft that was seen whole is corrected (E12)."""
    seen, said = draft.strip(), reply.strip()
    kept = not seen or seen == said or (partial and said.startswith(seen))
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
    "run.terminated_by": Story._terminated,
    "run.completed": Story._completed,
}


def running(tool: str, arguments: str) -> str:
    """What the spinner says while a tool runs."""
    return f"running {call_text(tool, arguments).removeprefix('shell ').removesuffix('…')} …"


def outcome(data: Data) -> str:
    """How a call ended, in a few words."""
    text, how, code = _text(data, "text"), _text(data, "outcome"), data.get("exit_code")
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("exit_code: ")]
    first = one_line(lines[0], 80) if lines else ""
    if how in {"not_run", "unknown"}:
        return "not run" if how == "not_run" else "outcome unknown: it may or may not have happened"
    if how == "rejected":
        return "not allowed"
    if isinstance(code, int) and code != 0:
        return f"exit {code}" + (f": {first}" if first else "")
    if data.get("is_error"):
        return f"failed: {first}" if first else "failed"
    return (first or "done") if len(lines) <= 1 else f"{len(lines)} lines"


def _text(data: Data, key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _number(data: Data, key: str) -> float:
    value = data.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
