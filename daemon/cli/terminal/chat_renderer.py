"""Renders the events of a run as items of a screen: events in, finished items out, and what the run
is doing now.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from channels.markup.sanitize import shorten_line, summarize_call
from daemon.agent.system_questions import QuestionText, parse_system_question
from daemon.cli.terminal.items import (
    Activity,
    AssistantText,
    CorrectedReply,
    DroppedDraft,
    ErrorLine,
    PlanSteps,
    ScreenItem,
    StatusNote,
    SubagentLine,
    ToolLine,
)
from daemon.client.protocol import COMPLETED, EventData, LiveEvent, describe_budget

TAIL, CALL_CHARS, NOTE_CHARS = 2000, 160, 80
ERROR_TEXTS = {
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
SILENT_REASONS = {"done", "cancelled", "failed", "rejected", ""}
ANSWER_TEXTS = {
    "once": "allowed once",
    "session": "allowed for this session",
    "always": "always allowed from now on",
}
REFUSAL_TEXTS = {"deny": "not allowed", "expired": "nobody answered in time, not allowed"}
OUTCOME_TEXTS = {
    "not_run": "not run",
    "unknown": "outcome unknown: it may or may not have happened",
    "rejected": "not allowed",
}
SENT_BACK = {
    "claims": "no result of this run supports it",
    "schema": "it does not have the requested form",
    "verify": "{check} does not hold",
}
SUBAGENT_NOTES = {"approval.answered", "budget.raised"}


class EventFields:
    """The fields of an event as attributes; a missing one is ""."""

    def __init__(self, data: EventData) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:  # JSON
        return self._data.get(name, "")


def _describe_outcome(data: EventFields) -> str:
    if data.outcome in OUTCOME_TEXTS:
        return OUTCOME_TEXTS[data.outcome]
    lines = [line for line in data.text.split("\n") if line.strip()]
    lines = [line for line in lines if not line.startswith("exit_code: ")]
    first = shorten_line(lines[0], NOTE_CHARS) if lines else ""
    failure = f"exit {data.exit_code}" if data.exit_code else "failed" if data.is_error else ""
    if failure:
        return f"{failure}: {first}" if first else failure
    return f"{len(lines)} lines" if len(lines) > 1 else first or "done"


def _describe_plan(plan: PlanSteps) -> str:
    done = sum(state == "done" for _, state in plan)
    now = next((f", now: {shorten_line(text, NOTE_CHARS)}" for text, s in plan if s == "doing"), "")
    return f"{done} of {len(plan)} done{now}"


def _parse_subagent_result(text: str) -> tuple[str, str] | None:
    """(stop reason, answer) of a sub-agent; None where it never began."""
    first, _, answer = text.partition("\n")
    try:
        return json.loads(first)["stop_reason"].replace("_", " "), answer
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(slots=True)
class ChatRenderer:
    """One run. `activity` is what moves on the screen; `ended` the data of run.completed."""

    activity: Activity = field(default_factory=Activity)
    now: Callable[[], float] = time.monotonic
    ended: EventData | None = None
    _items: list[ScreenItem] = field(default_factory=list)
    _calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    _questions: dict[str, QuestionText] = field(default_factory=dict)
    _subagents: dict[str, SubagentLine] = field(default_factory=dict)
    _background: set[str] = field(default_factory=set)
    _refused: set[str] = field(default_factory=set)
    _failed_check: str = ""
    _answer: str = ""
    _output: str = ""
    _misleads: bool = False
    _is_partial: bool = False
    _ending: str = ""

    def render(self, event: LiveEvent) -> list[ScreenItem]:
        """What is shown for good after this event. An unknown event shows nothing."""
        self._items = []
        handler = getattr(self, "_on_" + event.name.replace(".", "_"), None)
        if handler:
            handler(EventFields(event.data))
        if event.name == COMPLETED:
            self.ended = event.data
        return self._items

    def _show(self, item: ScreenItem) -> None:
        self._items.append(item)

    def _note(self, text: str) -> None:
        self._items.append(StatusNote(text))

    def _set_activity(self, doing: str) -> None:
        self.activity.doing, self.activity.since, self.activity.output = doing, self.now(), ""
        self._output = ""

    def _on_cycle_start(self, _: EventFields) -> None:
        self._drop_answer()
        self._restart("thinking")

    def _restart(self, doing: str) -> None:
        self.activity.draft, self._is_partial = "", False
        self._set_activity(doing)

    def _on_model_delta(self, data: EventFields) -> None:
        if not self.activity.draft:
            self._set_activity("writing")
        self.activity.draft += data.text
        self._is_partial = True

    def _on_model_reset(self, _: EventFields) -> None:
        self._restart("thinking")

    def _on_model_retry(self, data: EventFields) -> None:
        why = ERROR_TEXTS.get(data.error, data.error.replace("_", " ")) or "it failed"
        again = f"{why}, trying {data.next_model or 'again'}"
        self._restart(f"waiting {data.wait_s:.3g} s: {why}, trying again" if data.wait_s else again)

    def _on_model_response(self, data: EventFields) -> None:
        self._is_partial = False
        if not data.tool_calls:
            self._answer = self.activity.draft = data.text
            return
        self.activity.draft = ""
        if data.text.strip():
            self._show(AssistantText(data.text, interim=True))

    def _on_verified(self, data: EventFields) -> None:
        if not data.passed:
            self._failed_check = data.check

    def _on_coached(self, data: EventFields) -> None:
        """A wrong answer goes back to the model; the person learns why another one comes (E12)."""
        self._drop_answer()
        why = SENT_BACK.get(data.kind, "")
        if why and self._failed_check != "manual":  # then the person has just said so
            check = shorten_line(self._failed_check or "a check", NOTE_CHARS)
            self._note(f"sent back: {why.format(check=check)}")

    def _on_steered(self, _: EventFields) -> None:
        """The answer before more words of the person stands; another one follows."""
        if answer := self._take_answer():
            self._show(AssistantText(answer, interim=True))

    def _drop_answer(self) -> None:
        if answer := self._take_answer():
            self._misleads = True
            self._show(DroppedDraft(answer))

    def _take_answer(self) -> str:
        answer, self._answer, self.activity.draft = self._answer, "", ""
        return answer if answer.strip() else ""

    def _on_tool_call(self, data: EventFields) -> None:
        self._calls[data.call_id] = data.tool, data.arguments

    def _on_tool_started(self, data: EventFields) -> None:
        call = summarize_call(*self._calls.get(data.call_id, (data.tool, "")))
        self._set_activity(f"running {call.removeprefix('shell ').removesuffix('…')} …")

    def _on_tool_output(self, data: EventFields) -> None:
        self._output = (self._output + data.text)[-TAIL:]
        self.activity.output = self._output.rstrip().rpartition("\n")[2]

    def _on_tool_retry(self, data: EventFields) -> None:
        why = shorten_line(data.error, NOTE_CHARS)
        self._set_activity(f"waiting {data.wait_s:.3g} s: {why}, trying again")

    def _on_tool_result(self, data: EventFields) -> None:
        tool, arguments = self._calls.get(data.call_id, (data.tool, ""))
        self.activity.output = ""
        if subagent := self._subagents.pop(data.call_id, None):
            result = _parse_subagent_result(data.text) or (_describe_outcome(data), "")
            self._wait_for_subagents()
            if data.call_id not in self._background:
                self._show(replace(subagent, ended=result[0], answer=result[1]))
        elif data.call_id not in self._refused and (tool != "todo" or data.is_error):
            call = summarize_call(tool, arguments, CALL_CHARS)
            self._show(ToolLine(call, _describe_outcome(data)))

    def _on_tool_results(self, _: EventFields) -> None:
        self._set_activity("thinking")

    def _on_approval_asked(self, data: EventFields) -> None:
        self._set_activity("waiting for your answer")
        if question := parse_system_question(data.tool, data.arguments):
            self._questions[data.call_id] = question
            if question.text:
                self._answer = self.activity.draft = ""  # the question shows it in full

    def _on_approval_answered(self, data: EventFields) -> None:
        why = f" ({shorten_line(data.reason, NOTE_CHARS)})" if data.reason else ""
        self._set_activity("thinking")
        if question := self._questions.get(data.call_id):
            texts = {"deny": "no", "expired": "nobody answered in time"}
            text = texts.get(data.answer, "yes")
            if text != "yes" or question.text:  # else what follows shows it
                self._note(f"{question.title} {text}{why}")
            return
        texts = ANSWER_TEXTS | REFUSAL_TEXTS
        if data.answer in REFUSAL_TEXTS:
            self._refused.add(data.call_id)
        call = summarize_call(*self._calls.get(data.call_id, ("", "")))
        self._note(f"{texts.get(data.answer, data.answer)}: {call}{why}")

    def _on_todos(self, data: EventFields) -> None:
        plan = tuple((item["text"], item["state"]) for item in data.items)
        self.activity.plan = plan
        self._show(ToolLine("plan", _describe_plan(plan)))

    def _on_agent_started(self, data: EventFields) -> None:
        subagent = self._subagents[data.key] = SubagentLine(data.agent, data.task)
        if data.background:
            self._background.add(data.key)
        self._wait_for_subagents()
        self._show(subagent)

    def _wait_for_subagents(self) -> None:
        waiting = [one.agent for key, one in self._subagents.items() if key not in self._background]
        if waiting:
            one = f"waiting for agent {waiting[0]}"
            self._set_activity(one if len(waiting) == 1 else f"waiting for {len(waiting)} agents")

    def _on_agent_ended(self, data: EventFields) -> None:
        subagent = self._subagents.pop(data.key, None) or SubagentLine(data.key, "")
        self._wait_for_subagents()
        ended = data.stop_reason.replace("_", " ")
        self._show(replace(subagent, ended=ended, answer=data.text))

    def _on_history_compressed(self, data: EventFields) -> None:
        sizes = f"{data.tokens_before:,} → {data.tokens_after:,} tokens"
        self._note(f"the conversation got long: {sizes} are shown to the model")

    def _on_budget_raised(self, data: EventFields) -> None:
        caps = data.max_usd, data.max_input_tokens
        self._note(f"goes on, {describe_budget(*caps, data.day_usd, data.day_tokens)}")

    def _on_budget_extended(self, data: EventFields) -> None:
        reason = shorten_line(data.reason, NOTE_CHARS)
        self._note(f"goes on, up to {data.max_iterations} steps: {reason}")

    def _on_run_terminated_by(self, data: EventFields) -> None:
        if data.reason not in SILENT_REASONS:
            self._ending = data.detail or data.reason.replace("_", " ")

    def _on_run_completed(self, data: EventFields) -> None:
        draft, reply = self.activity.draft.strip(), data.reply.strip()
        self.activity.doing = self.activity.draft = self.activity.output = ""
        self.activity.plan = ()
        if data.stop_reason in FAILED:
            kept = "The message could not be answered; it is kept in the journal."
            self._show(ErrorLine(data.reply or self._ending or kept))
            return
        # a draft that was shown in full and is not the beginning of the reply is corrected (E12)
        start = draft if self._is_partial else draft + "\n"
        is_kept = not draft or draft == reply or reply.startswith(start)
        if not is_kept:
            self._show(DroppedDraft(draft))
        misleads = self._misleads and data.stop_reason != "cancelled"
        wrong = misleads or not (is_kept or self._is_partial)
        if reply:
            self._show(CorrectedReply(data.reply) if wrong else AssistantText(data.reply))
        if self._ending and self._ending not in data.reply:
            self._note(f"stopped: {self._ending}")


@dataclass(slots=True)
class SubagentRenderer:
    """A sub-agent's run in the chat of its parent's (A17). Its texts are for its parent, so they
    are not shown.

    `background`: the parent does not wait for it.
    """

    agent: str
    task: str
    background: bool
    renderer: ChatRenderer
    _activity: Activity = field(default_factory=Activity)

    @property
    def ended(self) -> EventData | None:
        """The data of run.completed."""
        return self.renderer.ended

    @property
    def activity(self) -> Activity:
        """What it is doing now, with its name and without its draft."""
        now, shown = self.renderer.activity, self._activity
        shown.doing = f"agent {self.agent}: {now.doing}" if now.doing else ""
        shown.since, shown.output = now.since, now.output
        return shown

    def render(self, event: LiveEvent) -> list[ScreenItem]:
        """What is shown for good after this event."""
        items = self.renderer.render(event)
        if event.name == COMPLETED and self.background:
            data = EventFields(event.data)
            ended = data.stop_reason.replace("_", " ")
            return [SubagentLine(self.agent, self.task, ended, data.reply)]
        shown: list[ScreenItem] = [item for item in items if isinstance(item, SubagentLine)]
        if event.name in SUBAGENT_NOTES:
            notes = (item.text for item in items if isinstance(item, StatusNote))
            shown += [StatusNote(f"agent {self.agent}: {text}") for text in notes]
        return shown
