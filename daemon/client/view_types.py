"""What a client gets: views of runs, messages, questions, permissions and sessions, and the events
of a run. Their names and forms are CONTRACT's; HTTP sends them as they are. Light.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from daemon.core import value

STATE_TONES: Mapping[str, str] = {
    **dict.fromkeys(("ended", "ok", "done", "condition", "passed", "allow"), "good"),
    **dict.fromkeys(("suspended", "rejected", "not_run", "ask"), "warn"),
    **dict.fromkeys(("quarantined", "error", "failed", "unknown", "deny"), "bad"),
    "running": "busy",
    "queued": "waiting",
}
"""How a state, a decision or an outcome is shown."""


@value
class SendResult:
    """What a sent text became: a new turn, a part of a running one, or a command with its reply."""

    turn: str = ""
    steered: str = ""
    command: str = ""
    reply: str = ""


@value
class UsageView:
    """Tokens and USD of a run; usd is None where a price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = 0.0


@value
class CallView:
    """One tool call of a run. `result` is None while there is none."""

    call_id: str
    tool: str
    arguments: str
    effect: str | None
    decision: str | None
    result: str | None
    is_error: bool


@value
class RunView:
    """One run. state: queued, running, suspended, ended, quarantined. `children`: runs of its sub-
    agents; `tree`: what it and they have used.

    `tainted`: what made it untrusted, and at which event; "" while it is trusted. `private`: where
    it read something of the owner's. `reactions`: emojis that people put on its replies.
    `outgoing`: its messages to others than the owner, and how far each is; and what was not
    delivered.
    """

    turn: str
    session: str
    state: str
    stop_reason: str | None = None
    reply: str | None = None
    label: str = "trusted"
    iterations: int = 0
    usage: UsageView = field(default_factory=UsageView)
    tree: UsageView = field(default_factory=UsageView)
    notices: list[str] = field(default_factory=list)
    calls: list[CallView] = field(default_factory=list)
    started: str | None = None
    ended: str | None = None
    agent: str = "default"
    parent: str | None = None
    children: list[str] = field(default_factory=list)
    tainted: str = ""
    private: list[str] = field(default_factory=list)
    reactions: list[str] = field(default_factory=list)
    outgoing: list[str] = field(default_factory=list)


@value
class RunLine:
    """One run in a list. `text`: the first words of its message; `usd` is its agents', too; None
    where a price is unknown.
    """

    turn: str
    session: str
    state: str
    stop_reason: str | None
    started: str | None
    ended: str | None
    agent: str = "default"
    parent: str | None = None
    text: str = ""
    usd: float | None = 0.0


@value
class SaidView:
    """What somebody said. `label`: whether their words are trusted."""

    sender: str
    text: str
    label: str


@value
class MessageView:
    """One turn of a conversation as people read it: what was said, later additions included, and
    the reply.
    """

    turn: str
    at: str
    state: str
    label: str
    stop_reason: str | None = None
    reply: str = ""
    said: list[SaidView] = field(default_factory=list)
    agent: str = "default"
    parent: str = ""


@value
class ApprovalView:
    """A question that waits for a person. `preview` is shown beside the arguments: a change as a
    diff, say. `question` tells it from the same call asked anew. `title`, `text`, `options`: what
    asked where it is no call of a tool; `secret`: the name and host of one that is asked for;
    `root`: the conversation that its session works for.
    """

    turn: str
    call_id: str
    session: str
    tool: str
    arguments: str
    effect: str
    label: str
    expires: str
    preview: str = ""
    question: str = ""
    title: str = ""
    text: str = ""
    options: list[str] = field(default_factory=list)
    secret: list[str] = field(default_factory=list)
    root: str = ""


@value
class GrantView:
    """A standing permission. session "" is everywhere, paths "" is exactly these arguments,
    uses_left None any number.
    """

    id: str
    session: str
    tool: str
    arguments: str
    paths: str
    granted_by: str
    created: str
    expires: str | None
    uses_left: int | None
    uses: int


@value
class SessionView:
    """One session; model "" is the configured one. `root`: the session that this one works for.
    Of its runs: how many, when the latest began, and the first words of its message. `usd`: what
    its runs and those for it have cost that are over; None where a price is unknown.
    """

    id: str
    label: str
    paused: bool
    model: str
    created: str
    agent: str = "default"
    root: str = ""
    turns: int = 0
    used: str | None = None
    text: str = ""
    usd: float | None = 0.0


@value
class UndeliveredText:
    """A text for a session that may not have been shown yet."""

    turn: str
    part: int
    kind: str
    body: str


EventData = Mapping[str, object]


@value
class LiveEvent:
    """One event of a run, by B5's names. Drafts have no `seq`: nobody resumes from them. One
    recorded event may become
    several; `rest` says how many of them follow, for a client that resumes in between.

    cycle.start {iteration, max_iterations, model, window}   model.delta {text}     model.reset {}
    model.retry {error, message, wait_s, next_model}
    message.queued {call_id, kind, channel, chat, due}
    model.response {iteration, text, text_length, tool_calls, finish_reason, usage}
    tool_call {call_id, tool, arguments}     tool.started {call_id, tool}
    tool.output {call_id, text}              tool.retry {call_id, error, wait_s}
    tool_result {call_id, tool, outcome, is_error, text, exit_code}
    tool.results {iteration, count}
    approval.asked {call_id, tool, arguments, effect, expires, preview}
    approval.answered {call_id, answer, by, reason}
    steered {text}   coached {kind, text}    intent {intent}
    budget.extended {reason, max_iterations} cycle.refunded {call_ids}
    budget.raised {question, max_input_tokens, max_usd, day_tokens, day_usd}
    todos {items}                            verified {check, passed, feedback, note}
    history.compressed {strategy, summary, tokens_before, tokens_after}
    model.consulted {purpose, model, error, usage}
    agent.started {key, turn, session, agent, task, background}: its own run tells what it does
    agent.ended {key, turn, stop_reason, text}: a step of a composite; else `tool_result` of call
    `key`, or a message, says so
    alarm {kind, text}
    run.suspended {waiting_for}              run.resumed {why}
    run.terminated_by {reason, detail, ok}
    run.completed {reply, text_length, stop_reason, iterations, usage, label}: always the last
    """

    name: str
    data: EventData
    seq: int | None = None
    rest: int = 0


@value
class HealthView:
    """Whether the daemon serves, and its problems."""

    ok: bool
    version: str
    problems: list[str] = field(default_factory=list)


def format_local_time(instant: str | None) -> str:
    """An ISO instant in local time."""
    return f"{datetime.fromisoformat(instant).astimezone():%Y-%m-%d %H:%M:%S}" if instant else ""
