"""What happens in a run, in a few words each. Pure.

How the events of a run become lines on a screen. Pure: events in, finished items out, and what it is doing now.

An agent at work for a run, as the chat of that run tells it: what it is doing, what it asks, what became of it (A17). Pure.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from channels.markup.sanitize import shorten_line, summarize_call
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
from daemon.client.protocol import LiveEvent
from daemon.core.system_questions import QuestionText, parse_system_question

EventData = Mapping[str, object]

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
ANSWER_TEXTS = {
    "once": "allowed once",
    "session": "allowed for this session",
    "always": "always allowed from now on",
}
REFUSAL_TEXTS = {"deny": "not allowed", "expired": "nobody answered in time, not allowed"}


def describe_running(tool: str, arguments: str) -> str:
    """What the spinner says while a tool runs."""
    return f"running {summarize_call(tool, arguments).removeprefix('shell ').removesuffix('…')} …"


def describe_outcome(data: EventData) -> str:
    """How a call ended, in a few words."""
    text, how, code = get_text(data, "text"), get_text(data, "outcome"), data.get("exit_code")
    lines = [
        line for line in text.split("\n") if line.strip() and not line.startswith("exit_code: ")
    ]
    first = shorten_line(lines[0], 80) if lines else ""
    if how in {"not_run", "unknown"}:
        return "not run" if how == "not_run" else "outcome unknown: it may or may not have happened"
    if how == "rejected":
        return "not allowed"
    if isinstance(code, int) and code != 0:
        return f"exit {code}" + (f": {first}" if first else "")
    if data.get("is_error"):
        return f"failed: {first}" if first else "failed"
    return (first or "done") if len(lines) <= 1 else f"{len(lines)} lines"


def get_text(data: EventData, key: str) -> str:
    """What stands there, if it is a text."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def get_number(data: EventData, key: str) -> float:
    """What stands there, if it is a number."""
    value = data.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def get_plan(data: EventData) -> PlanSteps:
    """The plan that the model wrote down."""
    items = data.get("items")
    return tuple(
        (str(item["text"]), str(item["state"]))
        for item in (items if isinstance(items, list) else [])
    )


def describe_plan(plan: PlanSteps) -> str:
    """How far a plan is, and what is at hand."""
    done = sum(state == "done" for _, state in plan)
    now = next((text for text, state in plan if state == "doing"), "")
    return f"{done} of {len(plan)} done" + (f", now: {shorten_line(now, 80)}" if now else "")


def parse_agent_result(text: str) -> tuple[str, str] | None:
    """(why it ended, what it answered) of an agent that was waited for; None where it never began."""
    first, _, answer = text.partition("\n")
    try:
        told = json.loads(first)
    except ValueError:
        return None
    if not isinstance(told, dict) or "stop_reason" not in told:
        return None
    return str(told["stop_reason"]).replace("_", " "), answer


def describe_budget_raise(data: EventData) -> str:
    """What a budget was raised to."""
    if get_number(data, "day_usd") or get_number(data, "day_tokens"):
        usd, tokens = get_number(data, "day_usd"), get_number(data, "day_tokens")
        return f"${usd:g} more today" if usd else f"{tokens:,.0f} tokens more today"
    caps = [f"${get_number(data, 'max_usd'):g}"] if data.get("max_usd") is not None else []
    caps += (
        [f"{get_number(data, 'max_input_tokens'):,.0f} tokens"]
        if data.get("max_input_tokens") is not None
        else []
    )
    return f"up to {' and '.join(caps)}"


TAIL, CALL_CHARS = 2000, 160
SENT_BACK = {
    "claims": "nothing that was done here bears it out",
    "schema": "it has not the form that was asked for",
    "verify": "{check} does not hold",
}


@dataclass(slots=True)
class ChatRenderer:
    """One run, as it is told. `activity` is what moves on the screen."""

    activity: Activity = field(default_factory=Activity)
    now: Callable[[], float] = time.monotonic
    ended: EventData | None = None
    _calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    _system_questions: dict[str, QuestionText] = field(default_factory=dict)
    _subagents: dict[str, SubagentLine] = field(default_factory=dict)
    _background: set[str] = field(default_factory=set)
    _failed_check: str = ""
    _answer: str = ""
    _printed: str = ""
    _refused: set[str] = field(default_factory=set)
    _was_misled: bool = False
    _partial: bool = False
    _ending: str = ""

    def render(self, event: LiveEvent) -> list[ScreenItem]:
        """What is to be shown for good after this event."""
        told = HANDLERS.get(event.name)
        return told(self, event.data) if told else []

    def _set_activity(self, what: str) -> None:
        self.activity.doing, self.activity.since, self.activity.output = what, self.now(), ""
        self._printed = ""

    def _cycle(self, data: EventData) -> list[ScreenItem]:
        items = self._drop_answer()
        self.activity.draft, self._partial = "", False
        self._set_activity("thinking")
        return items

    def _delta(self, data: EventData) -> list[ScreenItem]:
        if not self.activity.draft:
            self._set_activity("writing")
        self.activity.draft += get_text(data, "text")
        self._partial = True
        return []

    def _reset(self, data: EventData) -> list[ScreenItem]:
        self.activity.draft, self._partial = "", False
        self._set_activity("thinking")
        return []

    def _retry(self, data: EventData) -> list[ScreenItem]:
        self.activity.draft, self._partial = "", False
        error = get_text(data, "error")
        why = ERROR_TEXTS.get(error, error.replace("_", " ")) or "it failed"
        wait, model = get_number(data, "wait_s"), get_text(data, "next_model")
        self._set_activity(
            f"waiting {wait:.3g} s: {why}, trying again"
            if wait
            else f"{why}, trying {model or 'again'}"
        )
        return []

    def _response(self, data: EventData) -> list[ScreenItem]:
        text, self._partial = get_text(data, "text"), False
        if not data.get("tool_calls"):
            self._answer = self.activity.draft = text
            return []
        self.activity.draft = ""
        return [AssistantText(text, interim=True)] if text.strip() else []

    def _on_verified(self, data: EventData) -> list[ScreenItem]:
        if not data.get("passed"):
            self._failed_check = get_text(data, "check")
        return []

    def _on_coached(self, data: EventData) -> list[ScreenItem]:
        """An answer that does not hold goes back to the model; the person is told why another one comes (E12)."""
        items, why = self._drop_answer(), SENT_BACK.get(get_text(data, "kind"), "")
        if self._failed_check == "manual":
            return items  # the person has just said so
        return (
            [
                *items,
                StatusNote(
                    f"sent back: {why.format(check=shorten_line(self._failed_check or 'a check', 100))}"
                ),
            ]
            if why
            else items
        )

    def _on_steered(self, data: EventData) -> list[ScreenItem]:
        """A full answer, then more words of the person: the answer stands, another one follows."""
        answer, self._answer, self.activity.draft = self._answer, "", ""
        return [AssistantText(answer, interim=True)] if answer.strip() else []

    def _drop_answer(self) -> list[ScreenItem]:
        answer, self._answer, self.activity.draft = self._answer, "", ""
        self._was_misled |= bool(answer.strip())
        return [DroppedDraft(answer)] if answer.strip() else []

    def _on_tool_call(self, data: EventData) -> list[ScreenItem]:
        self._calls[get_text(data, "call_id")] = (
            get_text(data, "tool"),
            get_text(data, "arguments"),
        )
        return []

    def _on_tool_started(self, data: EventData) -> list[ScreenItem]:
        self._set_activity(
            describe_running(
                *self._calls.get(get_text(data, "call_id"), (get_text(data, "tool"), ""))
            )
        )
        return []

    def _output(self, data: EventData) -> list[ScreenItem]:
        self._printed = (self._printed + get_text(data, "text"))[-TAIL:]
        self.activity.output = self._printed.rstrip().rpartition("\n")[2]
        return []

    def _tool_retry(self, data: EventData) -> list[ScreenItem]:
        why = shorten_line(get_text(data, "error"), 60)
        self._set_activity(f"waiting {get_number(data, 'wait_s'):.3g} s: {why}, trying again")
        return []

    def _result(self, data: EventData) -> list[ScreenItem]:
        call_id = get_text(data, "call_id")
        tool, arguments = self._calls.get(call_id, (get_text(data, "tool"), ""))
        self.activity.output = ""
        if errand := self._subagents.pop(call_id, None):
            ended = parse_agent_result(get_text(data, "text")) or (describe_outcome(data), "")
            self._wait_for_agents()
            return (
                []
                if call_id in self._background
                else [replace(errand, ended=ended[0], answer=ended[1])]
            )
        kept_in_view = tool == "todo" and not data.get("is_error")
        return (
            []
            if call_id in self._refused or kept_in_view
            else [ToolLine(summarize_call(tool, arguments, CALL_CHARS), describe_outcome(data))]
        )

    def _results(self, data: EventData) -> list[ScreenItem]:
        self._set_activity("thinking")
        return []

    def _on_asked(self, data: EventData) -> list[ScreenItem]:
        self._set_activity("waiting for your answer")
        if house := parse_system_question(get_text(data, "tool"), get_text(data, "arguments")):
            self._system_questions[get_text(data, "call_id")] = house
            if house.text:
                self._answer = self.activity.draft = ""  # the question shows it whole
        return []

    def _on_answered(self, data: EventData) -> list[ScreenItem]:
        call_id, answer, reason = (
            get_text(data, "call_id"),
            get_text(data, "answer"),
            get_text(data, "reason"),
        )
        why = f" ({shorten_line(reason, 80)})" if reason else ""
        self._set_activity("thinking")
        if house := self._system_questions.get(call_id):
            short = {"deny": "no", "expired": "nobody answered in time"}.get(answer, "yes")
            goes_on = short == "yes" and not house.text  # that is told by what follows from it
            return [] if goes_on else [StatusNote(f"{house.title} {short}{why}")]
        tool, arguments = self._calls.get(call_id, ("", ""))
        said = ANSWER_TEXTS.get(answer, REFUSAL_TEXTS.get(answer, answer))
        if answer in REFUSAL_TEXTS:
            self._refused.add(call_id)
        return [StatusNote(f"{said}: {summarize_call(tool, arguments)}{why}")]

    def _on_todos(self, data: EventData) -> list[ScreenItem]:
        self.activity.plan = get_plan(data)
        return [ToolLine("plan", describe_plan(self.activity.plan))]

    def _on_agent_started(self, data: EventData) -> list[ScreenItem]:
        key, errand = (
            get_text(data, "key"),
            SubagentLine(get_text(data, "agent"), get_text(data, "task")),
        )
        self._subagents[key] = errand
        if data.get("background"):
            self._background.add(key)
        self._wait_for_agents()
        return [errand]

    def _wait_for_agents(self) -> None:
        waits = [
            errand.agent for key, errand in self._subagents.items() if key not in self._background
        ]
        if waits:
            self._set_activity(
                f"waiting for agent {waits[0]}"
                if len(waits) == 1
                else f"waiting for {len(waits)} agents"
            )

    def _on_agent_ended(self, data: EventData) -> list[ScreenItem]:
        errand = self._subagents.pop(get_text(data, "key"), None) or SubagentLine(
            get_text(data, "key"), ""
        )
        self._wait_for_agents()
        return [
            replace(
                errand,
                ended=get_text(data, "stop_reason").replace("_", " "),
                answer=get_text(data, "text"),
            )
        ]

    def _on_compressed(self, data: EventData) -> list[ScreenItem]:
        before, after = get_number(data, "tokens_before"), get_number(data, "tokens_after")
        return [
            StatusNote(
                f"the conversation got long: {before:,.0f} → {after:,.0f} tokens are shown to the model"
            )
        ]

    def _on_budget_raised(self, data: EventData) -> list[ScreenItem]:
        return [StatusNote(f"goes on, {describe_budget_raise(data)}")]

    def _on_budget_extended(self, data: EventData) -> list[ScreenItem]:
        return [
            StatusNote(
                f"goes on, up to {get_number(data, 'max_iterations'):.0f} steps: {shorten_line(get_text(data, 'reason'), 80)}"
            )
        ]

    def _on_terminated(self, data: EventData) -> list[ScreenItem]:
        silent = get_text(data, "reason") in {"done", "cancelled", "failed", "rejected", ""}
        self._ending = (
            "" if silent else get_text(data, "detail") or get_text(data, "reason").replace("_", " ")
        )
        return []

    def _on_completed(self, data: EventData) -> list[ScreenItem]:
        self.ended = data
        reason, reply, ending = get_text(data, "stop_reason"), get_text(data, "reply"), self._ending
        draft, partial = self.activity.draft, self._partial
        self.activity.doing = self.activity.draft = self.activity.output = ""
        self.activity.plan = ()
        if reason in FAILED:
            return [
                ErrorLine(
                    reply
                    or ending
                    or "The message could not be answered; it is kept in the journal."
                )
            ]
        items = _closing(reply, draft, partial, misled=self._was_misled and reason != "cancelled")
        return (
            [*items, StatusNote(f"stopped: {ending}")] if ending and ending not in reply else items
        )


def _closing(reply: str, draft: str, partial: bool, misled: bool) -> list[ScreenItem]:
    """The reply, after the draft where the draft was something else; a draft that was seen whole is corrected (E12)."""
    seen, said = draft.strip(), reply.strip()
    kept = not seen or seen == said or said.startswith(seen if partial else seen + "\n")
    items: list[ScreenItem] = [] if kept else [DroppedDraft(draft)]
    wrong = misled or not (kept or partial)
    return [*items, CorrectedReply(reply) if wrong else AssistantText(reply)] if said else items


HANDLERS: Mapping[str, Callable[[ChatRenderer, EventData], list[ScreenItem]]] = {
    "cycle.start": ChatRenderer._cycle,
    "model.delta": ChatRenderer._delta,
    "model.reset": ChatRenderer._reset,
    "model.retry": ChatRenderer._retry,
    "model.response": ChatRenderer._response,
    "tool_call": ChatRenderer._on_tool_call,
    "tool.started": ChatRenderer._on_tool_started,
    "tool.output": ChatRenderer._output,
    "tool.retry": ChatRenderer._tool_retry,
    "tool_result": ChatRenderer._result,
    "tool.results": ChatRenderer._results,
    "approval.asked": ChatRenderer._on_asked,
    "approval.answered": ChatRenderer._on_answered,
    "steered": ChatRenderer._on_steered,
    "coached": ChatRenderer._on_coached,
    "budget.extended": ChatRenderer._on_budget_extended,
    "budget.raised": ChatRenderer._on_budget_raised,
    "todos": ChatRenderer._on_todos,
    "verified": ChatRenderer._on_verified,
    "history.compressed": ChatRenderer._on_compressed,
    "agent.started": ChatRenderer._on_agent_started,
    "agent.ended": ChatRenderer._on_agent_ended,
    "run.terminated_by": ChatRenderer._on_terminated,
    "run.completed": ChatRenderer._on_completed,
}


SHOWN_EVENTS = {"approval.answered", "budget.raised"}


@dataclass(slots=True)
class SubagentRenderer:
    """Its words are for the agent that set it to work, so they are not shown. `background`: nobody waits for it."""

    agent: str
    task: str
    background: bool
    renderer: ChatRenderer
    _shown: Activity = field(default_factory=Activity)

    @property
    def ended(self) -> EventData | None:
        """What `run.completed` says of it."""
        return self.renderer.ended

    @property
    def activity(self) -> Activity:
        """What it is doing now, under its name and without its words."""
        now, shown = self.renderer.activity, self._shown
        shown.doing = f"agent {self.agent}: {now.doing}" if now.doing else ""
        shown.since, shown.output = now.since, now.output
        return shown

    def render(self, event: LiveEvent) -> list[ScreenItem]:
        """What is to be shown for good after this event."""
        items = self.renderer.render(event)
        if event.name == "run.completed" and self.background:
            ended = get_text(event.data, "stop_reason").replace("_", " ")
            return [SubagentLine(self.agent, self.task, ended, get_text(event.data, "reply"))]
        return [kept for item in items if (kept := self._filter_item(item, event.name))]

    def _filter_item(self, item: ScreenItem, name: str) -> ScreenItem | None:
        if isinstance(item, StatusNote) and name in SHOWN_EVENTS:
            return StatusNote(f"agent {self.agent}: {item.text}")
        return item if isinstance(item, SubagentLine) else None
