"""Renders the events of a run as items of a screen: events in, finished items out, and what the run
is doing now.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from typing import Any

from channels.markup.sanitize import (
    argument_fields,
    escape_invisible,
    shorten_line,
    summarize_call,
)
from daemon.agent.system_questions import QuestionText, parse_system_question
from daemon.cli.terminal.items import (
    Activity,
    AssistantText,
    CorrectedReply,
    DroppedDraft,
    ErrorLine,
    ScreenItem,
    StatusNote,
    SubagentLine,
    ToolLine,
)
from daemon.client.protocol import COMPLETED
from daemon.client.view_types import EventData, LiveEvent
from daemon.core.messages import defuse
from daemon.core.turn_spec import describe_budget

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
    "filtered": "its filter stops this",
}
FAILED = {"failed", "quarantined"}
SILENT_REASONS = {"done", "cancelled", "failed", "rejected", ""}
ANSWER_TEXTS = {
    "once": "allowed once",
    "session": "allowed for this session",
    "always": "always allowed from now on",
    "deny": "not allowed",
    "text": "not allowed",
    "expired": "nobody answered in time, not allowed",
}
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
CHANGES = {"edit_file": ("old", "new"), "write_file": ("", "text")}  # arguments: before, after
DIFF_HEADS = ("--- ", "+++ ", "@@ ")
SUBAGENT_NOTES = {"approval.answered", "budget.raised"}
KEPT = "The message could not be answered; it is kept in the journal."


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


def _describe_call(tool: str, arguments: str, data: EventFields) -> ToolLine:
    call, outcome = summarize_call(tool, arguments, CALL_CHARS), _describe_outcome(data)
    named = dict(argument_fields(arguments))
    if data.outcome not in OUTCOME_TEXTS and data.exit_code not in ("", None):
        printed = data.text.rstrip().split("\n")[1:]  # the first line is the exit code
        return ToolLine(call, outcome, _to_lines(printed) if len(printed) > 1 else ())
    if tool in CHANGES and not data.is_error:
        old, new = (named.get(name, "") for name in CHANGES[tool])
        summary = summarize_call(tool, json.dumps({"path": named.get("path", "")}), CALL_CHARS)
        return ToolLine(summary, outcome, _to_lines(make_diff(old, new)), is_diff=True)
    return ToolLine(call, outcome)


def make_diff(old: str, new: str) -> list[str]:
    """The change as a unified diff with one line around it, without heads."""
    lines = unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm="")
    return [line for line in lines if not line.startswith(DIFF_HEADS)]


def _to_lines(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(escape_invisible(line.expandtabs(4)) for line in lines)


@dataclass(slots=True)
class ChatRenderer:
    """One run, or with an `agent` a sub-agent's run in the chat of its parent's (A17): its texts
    are for its parent, so they are not shown. `background`: the parent does not wait for it.
    """

    now: Callable[[], float] = time.monotonic
    agent: str = ""
    task: str = ""
    background: bool = False
    _activity: Activity = field(default_factory=Activity)
    _items: list[ScreenItem] = field(default_factory=list)
    _calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    _questions: dict[str, QuestionText] = field(default_factory=dict)
    _subagents: dict[str, SubagentLine] = field(default_factory=dict)
    _silent: set[str] = field(default_factory=set)  # calls whose results are not shown
    _failed_check: str = ""
    _answer: str = ""
    _output: str = ""
    _misleads: bool = False
    _is_partial: bool = False
    _ending: str = ""

    @property
    def activity(self) -> Activity:
        """What moves on the screen; of a sub-agent its name, and not its draft and its plan."""
        now = self._activity
        if not self.agent:
            return now
        doing = f"agent {self.agent}: {now.doing}" if now.doing else ""
        return Activity(doing, now.since, output=now.output)

    def render(self, event: LiveEvent) -> list[ScreenItem]:
        """What is shown for good after this event. An unknown event shows nothing."""
        self._items, data, name = [], EventFields(event.data), event.name
        if name.startswith(("tool", "approval.", "todos")):
            self._render_call(name, data)
        elif name.startswith(("agent.", "run.", "budget.")):
            self._render_run(name, data)
        else:
            self._render_model(name, data)
        if not self.agent:
            return self._items
        if name == COMPLETED and self.background:
            return [self._end_subagent(SubagentLine(self.agent, self.task), data, data.reply)]
        kinds = StatusNote if name in SUBAGENT_NOTES else SubagentLine
        return [
            StatusNote(f"agent {self.agent}: {item.text}") if isinstance(item, StatusNote) else item
            for item in self._items
            if isinstance(item, kinds)
        ]

    def _note(self, text: str) -> None:
        self._items.append(StatusNote(text))

    def _set_activity(self, doing: str) -> None:
        now = self._activity
        now.doing, now.since, now.output, self._output = doing, self.now(), "", ""

    def _restart(self, doing: str) -> None:
        self._activity.draft, self._is_partial = "", False
        self._set_activity(doing)

    def _take_answer(self) -> str:
        answer, self._answer, self._activity.draft = self._answer, "", ""
        return answer if answer.strip() else ""

    def _drop_answer(self) -> None:
        if answer := self._take_answer():
            self._misleads = True
            self._items.append(DroppedDraft(answer))

    def _render_model(self, name: str, data: EventFields) -> None:
        match name:
            case "cycle.start":
                self._drop_answer()
                self._restart("thinking")
            case "model.reset":
                self._restart("thinking")
            case "model.delta":
                if not self._activity.draft:
                    self._set_activity("writing")
                self._activity.draft += data.text
                self._is_partial = True
            case "model.retry":
                why = ERROR_TEXTS.get(data.error, data.error.replace("_", " ")) or "it failed"
                wait = f"waiting {data.wait_s:.3g} s: {why}, trying again" if data.wait_s else ""
                self._restart(wait or f"{why}, trying {data.next_model or 'again'}")
            case "model.response":
                self._is_partial, self._activity.draft = False, ""
                if not data.tool_calls:
                    self._answer = self._activity.draft = data.text
                elif data.text.strip():
                    self._items.append(AssistantText(data.text, interim=True))
            case "verified" if not data.passed:
                self._failed_check = data.check
            case "coached":
                # a wrong answer goes back to the model; the person learns why another one comes
                self._drop_answer()
                why = SENT_BACK.get(data.kind, "")
                if why and self._failed_check != "manual":  # then the person has just said so
                    check = shorten_line(self._failed_check or "a check", NOTE_CHARS)
                    self._note(f"sent back: {why.format(check=check)}")
            case "history.compressed":
                sizes = f"{data.tokens_before:,} → {data.tokens_after:,} tokens"
                self._note(f"the conversation got long: {sizes} are shown to the model")
            case "steered":
                # the answer before more words of the person stands; another one follows
                if answer := self._take_answer():
                    self._items.append(AssistantText(answer, interim=True))

    def _render_call(self, name: str, data: EventFields) -> None:
        tool, arguments = self._calls.get(data.call_id, (data.tool, ""))
        match name:
            case "tool_call":
                self._calls[data.call_id] = data.tool, data.arguments
            case "tool.started":
                call = summarize_call(tool, arguments)
                self._set_activity(f"running {call.removeprefix('shell ').removesuffix('…')} …")
            case "tool.output":
                self._output = (self._output + data.text)[-TAIL:]
                self._activity.output = self._output.rstrip().rpartition("\n")[2]
            case "tool.retry":
                why = shorten_line(data.error, NOTE_CHARS)
                self._set_activity(f"waiting {data.wait_s:.3g} s: {why}, trying again")
            case "tool_result":
                self._activity.output = ""
                if subagent := self._subagents.pop(data.call_id, None):
                    self._render_subagent_result(subagent, data)
                elif data.call_id not in self._silent and (tool != "todo" or data.is_error):
                    self._items.append(_describe_call(tool, arguments, data))
            case "tool.results":
                self._set_activity("thinking")
            case "todos":
                plan = tuple((item["text"], item["state"]) for item in data.items)
                self._activity.plan = plan
                done = sum(state == "done" for _, state in plan)
                doing = [shorten_line(text, NOTE_CHARS) for text, state in plan if state == "doing"]
                now = "".join(f", now: {text}" for text in doing[:1])
                self._items.append(ToolLine("plan", f"{done} of {len(plan)} done{now}"))
            case "approval.asked":
                self._set_activity("waiting for your answer")
                if question := parse_system_question(data.tool, data.arguments):
                    self._questions[data.call_id] = question
                    if question.text:
                        self._answer = self._activity.draft = ""  # the question shows it in full
            case "approval.answered":
                self._render_answer(summarize_call(tool, arguments), data)

    def _render_answer(self, call: str, data: EventFields) -> None:
        why = f" ({shorten_line(data.reason, NOTE_CHARS)})" if data.reason else ""
        self._set_activity("thinking")
        if question := self._questions.get(data.call_id):
            text = {"deny": "no", "expired": "nobody answered in time"}.get(data.answer, "yes")
            if data.answer in ("choice", "text"):
                text, why = shorten_line(data.reason, NOTE_CHARS), ""
            if text != "yes" or question.text:  # else what follows shows it
                self._note(f"{question.title} {text}{why}")
            return
        if data.answer in ("deny", "text", "expired"):
            self._silent.add(data.call_id)
        self._note(f"{ANSWER_TEXTS.get(data.answer, data.answer)}: {call}{why}")

    def _render_subagent_result(self, subagent: SubagentLine, data: EventFields) -> None:
        """A result begins with a line of JSON; without it the sub-agent never began."""
        first, _, answer = data.text.partition("\n")
        try:
            ended = json.loads(first)["stop_reason"].replace("_", " ")
        except (ValueError, KeyError, TypeError):
            ended, answer = _describe_outcome(data), ""
        self._wait_for_subagents()
        self._items.append(replace(subagent, ended=ended, answer=answer))

    def _end_subagent(self, subagent: SubagentLine, data: EventFields, text: str) -> SubagentLine:
        return replace(subagent, ended=data.stop_reason.replace("_", " "), answer=text)

    def _wait_for_subagents(self) -> None:
        names = [one.agent for one in self._subagents.values()]
        if names:
            who = f"agent {names[0]}" if len(names) == 1 else f"{len(names)} agents"
            self._set_activity(f"waiting for {who}")

    def _render_run(self, name: str, data: EventFields) -> None:
        match name:
            case "agent.started":
                subagent = SubagentLine(data.agent, data.task)
                if data.background:
                    self._silent.add(data.key)
                else:
                    self._subagents[data.key] = subagent
                self._wait_for_subagents()
                self._items.append(subagent)
            case "agent.ended":
                subagent = self._subagents.pop(data.key, SubagentLine(data.key, ""))
                self._wait_for_subagents()
                self._items.append(self._end_subagent(subagent, data, data.text))
            case "budget.extended":
                reason = shorten_line(data.reason, NOTE_CHARS)
                self._note(f"goes on, up to {data.max_iterations} steps: {reason}")
            case "budget.raised":
                caps = data.max_usd, data.max_input_tokens
                self._note(f"goes on, {describe_budget(*caps, data.day_usd, data.day_tokens)}")
            case "run.terminated_by" if data.reason not in SILENT_REASONS:
                self._ending = data.detail or data.reason.replace("_", " ")
            case "run.completed":
                self._complete(data)

    def _complete(self, data: EventFields) -> None:
        draft, reply = self._activity.draft.strip(), data.reply.strip()
        self._activity = Activity()
        if data.stop_reason in FAILED:
            self._items.append(ErrorLine(data.reply or self._ending or KEPT))
            return
        # a draft that was shown in full and is not the beginning of the reply is corrected (E12)
        end = "" if self._is_partial else "\n"
        starts = (draft + end, defuse(draft) + end)
        is_kept = not draft or f"{reply}{end}".startswith(starts)
        if not is_kept:
            self._items.append(DroppedDraft(draft))
        if reply:
            misleads = self._misleads and data.stop_reason != "cancelled"
            wrong = misleads or not (is_kept or self._is_partial)
            self._items.append(CorrectedReply(data.reply) if wrong else AssistantText(data.reply))
        if self._ending and self._ending not in data.reply:
            self._note(f"stopped: {self._ending}")
