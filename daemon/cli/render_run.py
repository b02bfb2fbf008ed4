"""How the parts of a drawn run are worded and coloured.

What the house itself did in a run, drawn: plans, compressions, checks, limits, alarms. Pure.

A run drawn as a tree of its iterations, its agents' runs as trees within it (B9, A17), and runs as a table. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from daemon.client.protocol import RunLine, RunView, UsageView
from daemon.client.views import RunBundle
from daemon.core.events import Todo
from daemon.core.system_questions import parse_system_question
from daemon.core.turn import render_plan

HEAD_LINES, HEAD_CHARS = 6, 600
COLORS = {
    "ended": "green",
    "running": "cyan",
    "queued": "blue",
    "suspended": "yellow",
    "quarantined": "red",
    "ok": "green",
    "done": "green",
    "condition": "green",
    "passed": "green",
    "error": "red",
    "failed": "red",
    "rejected": "yellow",
    "unknown": "bold red",
    "not_run": "yellow",
    "allow": "green",
    "ask": "yellow",
    "deny": "red",
}

TranscriptLine = Mapping[str, object]


def color_state(state: str) -> Text:
    """A state or an outcome, in its colour."""
    return Text(replace_unprintable(state), style=COLORS.get(state, ""))


def replace_unprintable(text: object) -> str:
    """Text from anywhere, unable to move the cursor or colour the screen."""
    return "".join(
        sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}"
        for sign in str(text)
    )


def shorten(text: object) -> str:
    """Its beginning, and how much was left out."""
    whole = replace_unprintable(text).strip()
    short = "\n".join(whole.split("\n")[:HEAD_LINES])[:HEAD_CHARS].rstrip()
    left_out = len(whole) - len(short)
    return f"{short}\n... {left_out} characters more" if left_out else short


def format_local_time(instant: str | None) -> str:
    """An ISO instant on the reader's clock."""
    return f"{datetime.fromisoformat(instant).astimezone():%Y-%m-%d %H:%M:%S}" if instant else ""


def format_duration(line: RunLine) -> str:
    """How long it was, from its beginning to its end, waiting for people included."""
    if not line.started or not line.ended:
        return ""
    seconds = (
        datetime.fromisoformat(line.ended) - datetime.fromisoformat(line.started)
    ).total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def format_run_usage(run: RunView) -> str:
    """What the run itself used up."""
    return f"{pluralize(run.iterations, 'iteration')}, {format_usage(run.usage)}"


def format_usage(used: UsageView) -> str:
    """Tokens and money; a price that is not known is not shown as nothing."""
    price = "price unknown" if used.usd is None else f"{used.usd:.4f} USD"
    return f"{used.input_tokens} tokens in ({used.cached_tokens} cached), {used.output_tokens} out, {price}"


def format_call_usage(line: TranscriptLine) -> str:
    """What one model call took."""
    used = line["usage"]
    if not isinstance(used, Mapping):
        return ""
    price = "" if used["usd"] is None else f", {used['usd']:.4f} USD"
    tokens = (
        f"{used['input_tokens']} in ({used['cached_tokens']} cached), {used['output_tokens']} out"
    )
    return f"{line['seconds']:.1f} s, {tokens}{price}"


def label_line(what: str, text: str, style: str) -> Text:
    """A thing that happened, and its words."""
    return Text.assemble((what, style), "  ", text) if text else Text(what, style)


def pluralize(number: object, what: str) -> str:
    """So many of them."""
    return f"{number} {what}{'' if number == 1 else 's'}"


DrawNotice = Callable[[Tree, TranscriptLine], None]


def render_notice(place: Tree, line: TranscriptLine) -> None:
    """One line of the transcript, where it belongs. What nobody here knows is drawn as it stands."""
    drawn = NOTICES.get(str(line["kind"]))
    if drawn:
        drawn(place, line)
        return
    rest = {name: line[name] for name in line if name not in ("seq", "at", "kind")}
    place.add(label_line(str(line["kind"]), shorten(rest), "yellow"))


def _draw_coached(place: Tree, line: TranscriptLine) -> None:
    place.add(
        label_line(
            f"coached ({replace_unprintable(line['kind_'])})", shorten(line["text"]), "yellow"
        )
    )


def _draw_suspended(place: Tree, line: TranscriptLine) -> None:
    waiting = line["waiting_for"]
    names = ", ".join(map(str, waiting)) if isinstance(waiting, list | tuple) else str(waiting)
    place.add(label_line("waits for a person", replace_unprintable(names), "yellow"))


def _draw_resumed(place: Tree, line: TranscriptLine) -> None:
    place.add(label_line("resumed", shorten(line["why"]), "yellow"))


def _draw_classified(place: Tree, line: TranscriptLine) -> None:
    place.add(label_line("intent", replace_unprintable(line["intent"]), "dim"))


def _draw_plan(place: Tree, line: TranscriptLine) -> None:
    """A check list: what is done, what is being done, what is left."""
    items = line["items"]
    todos = [
        Todo(replace_unprintable(item["text"]), item["state"])
        for item in (items if isinstance(items, list) else [])
    ]
    done = sum(item.state == "done" for item in todos)
    place.add(label_line("plan", f"{done} of {len(todos)} done", "bold blue")).add(
        Text(render_plan(todos))
    )


def _draw_compressed(place: Tree, line: TranscriptLine) -> None:
    sizes = f"{line['tokens_before']:,} -> {line['tokens_after']:,} tokens"
    left_out = [f"still shown: {pluralize(line['kept_earlier'], 'turn')} before this one"]
    left_out += (
        [f"left out: {pluralize(line['dropped_own'], 'message')} of this one"]
        if line["dropped_own"]
        else []
    )
    twig = place.add(
        label_line(f"compressed ({line['strategy']})", sizes, "bold blue").append(
            f"  {', '.join(left_out)}", "dim"
        )
    )
    if line["summary"]:
        twig.add(Text(shorten(line["summary"])))


def _draw_verified(place: Tree, line: TranscriptLine) -> None:
    passed = bool(line["passed"])
    twig = place.add(Text.assemble(("check ", "bold"), replace_unprintable(line["check"]), "  ").append_text(
        color_state("passed" if passed else "failed")
    ))  # fmt: skip
    for what in ("feedback", "note"):
        if line[what]:
            twig.add(label_line(what, shorten(line[what]), "yellow"))


def _draw_extended(place: Tree, line: TranscriptLine) -> None:
    place.add(
        label_line(
            f"limit raised to {line['max_iterations']} iterations",
            shorten(line["reason"]),
            "yellow",
        )
    )


def _draw_raised(place: Tree, line: TranscriptLine) -> None:
    limits = line["limits"] if isinstance(line["limits"], Mapping) else {}
    day = [f"{line['day_usd']:g} USD more today"] if line["day_usd"] else []
    day += [f"{line['day_tokens']:,} tokens more today"] if line["day_tokens"] else []
    caps = [f"{limits['max_usd']:g} USD"] if limits.get("max_usd") is not None else []
    caps += (
        [f"{limits['max_input_tokens']:,} tokens in"]
        if limits.get("max_input_tokens") is not None
        else []
    )
    place.add(
        label_line(
            "budget raised",
            " and ".join(day or [f"now {' and '.join(caps)} for this run"]),
            "yellow",
        )
    )


def _draw_refunded(place: Tree, line: TranscriptLine) -> None:
    place.add(Text("this iteration does not count: housekeeping only", "dim"))


def _draw_alarm(place: Tree, line: TranscriptLine) -> None:
    place.add(
        label_line(
            f"alarm ({replace_unprintable(line['kind_'])})", shorten(line["text"]), "bold red"
        )
    )


def _draw_consulting(place: Tree, line: TranscriptLine) -> None:
    """Its outcome, drawn next, takes this twig over; it stays when the process died in between."""
    place.add(_consult_label(line).append("  no answer is known; counted as spent", "dim"))


def _draw_consulted(place: Tree, line: TranscriptLine) -> None:
    last = place.children[-1] if place.children else None
    begun = last is not None and str(last.label).startswith(_purpose(line))
    twig = last if last is not None and begun else place.add(_consult_label(line))
    if line["error"]:
        twig.label = label_line(_purpose(line), "nobody answered", "bold blue")
        twig.add(label_line("failed", shorten(line["error"]), "red"))
        return
    twig.label = _consult_label(line).append(f"  {format_call_usage(line)}", "dim")
    if line["text"]:
        twig.add(Text(shorten(line["text"])))


def _consult_label(line: TranscriptLine) -> Text:
    return label_line(
        _purpose(line), replace_unprintable(f"{line['provider']}/{line['model']}"), "bold blue"
    )


def _purpose(line: TranscriptLine) -> str:
    return f"consulted ({replace_unprintable(line['purpose'])})"


NOTICES: Mapping[str, DrawNotice] = {
    "Coached": _draw_coached,
    "Suspended": _draw_suspended,
    "TurnResumed": _draw_resumed,
    "Classified": _draw_classified,
    "TodosSet": _draw_plan,
    "HistoryCompressed": _draw_compressed,
    "Verified": _draw_verified,
    "BudgetExtended": _draw_extended,
    "BudgetRaised": _draw_raised,
    "IterationRefunded": _draw_refunded,
    "Alarm": _draw_alarm,
    "Consulting": _draw_consulting,
    "Consulted": _draw_consulted,
}


FOLD_ABOVE, SHOWN_WHEN_FOLDED = 40, 25
REPLY_PURPOSES = ("judge", "reflection")


def render_runs(lines: Sequence[RunLine]) -> Table:
    """Runs at a glance."""
    drawn = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("turn", "session", "state", "why", "started", "took"):
        drawn.add_column(name, no_wrap=name != "session", overflow="fold")
    for line in lines:
        reason, started = color_state(line.stop_reason or ""), format_local_time(line.started)[:-3]
        drawn.add_row(
            line.turn,
            _session_label(line),
            color_state(line.state),
            reason,
            started,
            format_duration(line),
        )
    return drawn


def _session_label(line: RunLine) -> Text:
    """The session, and who answers in it; a sub-agent's own session says less than its name."""
    if line.parent:
        return Text.assemble(("agent ", "dim"), replace_unprintable(line.agent))
    agent = "" if line.agent == "default" else f" ({replace_unprintable(line.agent)})"
    return Text.assemble(replace_unprintable(line.session), (agent, "dim"))


def render_run(whole: RunBundle) -> Tree:
    """One run, step by step."""
    run = whole.run
    title = Text.assemble(
        ("turn ", "dim"),
        (run.turn, "bold"),
        ("  session ", "dim"),
        replace_unprintable(run.session),
        "  ",
    )
    if run.agent != "default":
        title = Text.assemble(title, ("agent ", "dim"), replace_unprintable(run.agent), "  ")
    drawing = RunTree(Tree(title, guide_style="dim"), whole)
    if run.parent:
        drawing.root.add(label_line("set to work by", f"turn {run.parent}", "dim"))
    for line in whole.transcript:
        drawing.add(line)
    return drawing.finish()


@dataclass(slots=True)
class RunTree:
    """The tree so far: the branch of the iteration under way, and one twig per call."""

    root: Tree
    bundle: RunBundle
    branch: Tree | None = None
    calls: dict[str, Tree] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    def add(self, line: TranscriptLine) -> None:
        """Draw one line of the transcript where it belongs."""
        match line["kind"]:
            case "UserSaid" | "Steered":
                self._add_message(line)
            case "ModelAsked":
                closing = "closing answer" if line["closing"] else f"iteration {line['iteration']}"
                self.branch = self.root.add(
                    label_line(closing, f"{line['provider']}/{line['model']}", "bold")
                )
            case "ModelRetried" | "ModelFailed" | "ModelReplied":
                self._model(line)
            case (
                "CallJudged"
                | "ApprovalAsked"
                | "ApprovalAnswered"
                | "ToolStarted"
                | "ToolRetried"
                | "ToolFinished"
            ):
                self._call(line)
            case "ChildSpawned" | "ChildReturned":
                self._child(line)
            case "TurnEnded":
                self._add_end(line)
            case _:
                self._add_notice(line)

    def finish(self) -> Tree:
        """With what is known of the run as a whole."""
        run = self.bundle.run
        if isinstance(self.root.label, Text):
            self.root.label.append_text(color_state(run.state))
            self.root.label.append("  untrusted" if run.label == "untrusted" else "", style="red")
        if run.tainted:
            self.root.add(Text.assemble(("untrusted: ", "red"), replace_unprintable(run.tainted)))
        for notice in run.notices:
            self.root.add(Text.assemble(("notice: ", "yellow"), replace_unprintable(notice)))
        if run.reactions:
            self.root.add(
                Text.assemble(("reactions: ", "dim"), replace_unprintable(" ".join(run.reactions)))
            )
        self.root.add(Text(format_run_usage(run), style="dim"))
        if self.bundle.children:
            self.root.add(Text(f"with its agents: {format_usage(self.bundle.usage)}", style="dim"))
        return self.root

    def _add_notice(self, line: TranscriptLine) -> None:
        """What concerns a call hangs at it, what concerns a reply at its iteration."""
        of_reply = line["kind"] == "Verified" or line.get("purpose") in REPLY_PURPOSES
        place = self.branch if of_reply and self.branch else self.root
        if line["kind"] == "TodosSet" and (twig := self.calls.get(str(line["call_id"]))):
            place, twig.label = twig, Text("todo", "bold cyan")  # the plan below it says it all
        render_notice(place, line)

    def _add_message(self, line: TranscriptLine) -> None:
        if line["kind"] == "Steered":
            self.root.add(
                label_line(
                    f"steered {replace_unprintable(line['sender'])}",
                    shorten(line["text"]),
                    "bold magenta",
                )
            )
            return
        who = "task" if self.bundle.run.parent else f"user {replace_unprintable(line['sender'])}"
        twig = self.root.add(label_line(who, shorten(line["text"]), "bold magenta"))
        if line.get("intent"):
            twig.label = Text.assemble(
                twig.label if isinstance(twig.label, Text) else "", (f"  ({line['intent']})", "dim")
            )
        memories = line.get("memories")
        for memory in memories if isinstance(memories, list) else []:
            twig.add(label_line("memory", shorten(memory["text"]), "dim"))

    def _model(self, line: TranscriptLine) -> None:
        branch = self.branch or self.root
        match line["kind"]:
            case "ModelRetried":
                then = f"after {line['wait_s']} s {line['next_provider']}/{line['next_model']}"
                branch.add(
                    label_line(
                        f"retry ({line['error']})", f"{shorten(line['message'])}; {then}", "yellow"
                    )
                )
            case "ModelFailed":
                branch.add(label_line(f"failed ({line['error']})", shorten(line["message"]), "red"))
            case _:
                self._add_reply(branch, line)

    def _add_reply(self, branch: Tree, line: TranscriptLine) -> None:
        branch.label = Text.assemble(
            branch.label if isinstance(branch.label, Text) else "",
            (f"  {format_call_usage(line)}", "dim"),
        )
        if line["text"]:
            branch.add(Text(shorten(line["text"])))
        calls = line["calls"]
        for index, call in enumerate(calls if isinstance(calls, list) else []):
            twig = branch.add(
                label_line(
                    replace_unprintable(call["name"]), shorten(call["arguments"]), "bold cyan"
                )
            )
            self.calls[f"{line['seq']}.{index}"] = twig

    def _call(self, line: TranscriptLine) -> None:
        twig = self.calls.get(str(line["call_id"])) or self.branch or self.root
        match line["kind"]:
            case "CallJudged":
                said = Text.assemble(
                    (f"{line['effect']}: ", "dim"), color_state(str(line["decision"]))
                )
                twig.add(said.append(f"  {replace_unprintable(line['reason'])}", style="dim"))
            case "ApprovalAsked":
                twig.add(_approval_label(line))
            case "ApprovalAnswered":
                reason = f": {replace_unprintable(line['reason'])}" if line["reason"] else ""
                twig.add(
                    label_line(
                        "answered",
                        f"{line['answer']} by {replace_unprintable(line['by'])}{reason}",
                        "yellow",
                    )
                )
            case "ToolStarted":
                twig.add(Text(f"started (attempt {line['attempt']})", style="dim"))
            case "ToolRetried":
                twig.add(
                    label_line(
                        f"retry {line['attempt']}",
                        f"{shorten(line['error'])}; after {line['wait_s']} s",
                        "yellow",
                    )
                )
            case _:
                _add_result(twig, line, known=str(line["call_id"]) in self.answered)

    def _child(self, line: TranscriptLine) -> None:
        """A sub-agent's run is a tree at the call, or for the step, that it was set to work by; folded where it is long."""
        child = next((one for one in self.bundle.children if one.run.turn == line["child"]), None)
        if line["kind"] == "ChildReturned":
            if child is None:
                self.root.add(
                    label_line(
                        f"{line['key']} ended {line['stop']}", shorten(line["text"]), "bold green"
                    )
                )
            return
        twig = (self.calls.get(str(line["key"])) or self.root).add(_agent_label(line))
        if child is None:
            twig.add(label_line("task", shorten(line["task"]), "bold magenta"))
            return
        drawing, lines = RunTree(twig, child), child.transcript
        folded = len(lines) > FOLD_ABOVE
        for inner in lines[:SHOWN_WHEN_FOLDED] if folded else lines:
            drawing.add(inner)
        if folded:
            rest = f"... {len(lines) - SHOWN_WHEN_FOLDED - 1} events more: aidaemon show {child.run.turn}"
            twig.add(Text(rest, "dim"))
            drawing.add(lines[-1])
        drawing.finish()
        if not line["report"]:
            self.answered.add(str(line["key"]))

    def _add_end(self, line: TranscriptLine) -> None:
        reason = label_line(
            "ended", replace_unprintable(line["reason"]), COLORS.get(str(line["reason"]), "yellow")
        )
        end = self.root.add(
            reason.append(f"  {replace_unprintable(line['detail'])}" if line["detail"] else "")
        )
        end.add(Text(replace_unprintable(line["reply"])))


def _approval_label(line: TranscriptLine) -> Text:
    house = parse_system_question(str(line["tool"]), str(line["arguments"]))
    expires = f"expires {format_local_time(str(line['expires']))}"
    return label_line(
        f"asked: {replace_unprintable(house.title)}" if house else "approval asked",
        expires,
        "yellow",
    )


def _add_result(twig: Tree, line: TranscriptLine, *, known: bool) -> None:
    """`known`: the text is the answer of an agent whose run stands right above."""
    code = "" if line["exit_code"] is None else f"exit code {line['exit_code']}, "
    result = twig.add(
        color_state(str(line["outcome"])).append(f"  {code}{line['seconds']:.2f} s", style="dim")
    )
    if line.get("repeat_of"):
        result.add(
            Text(
                f"the result of call {line['repeat_of']} again; it was not run a second time",
                style="yellow",
            )
        )
    if not known:
        result.add(Text(shorten(line["text"])))


def _agent_label(line: TranscriptLine) -> Text:
    step = "" if str(line["key"])[:1].isdigit() else f"{replace_unprintable(line['key'])}  "
    where = "in the background  " if line["report"] else ""
    label = Text.assemble(
        ("agent ", "bold green"), (replace_unprintable(line["agent"]), "bold"), f"  {step}{where}"
    )
    return label.append_text(Text.assemble(("turn ", "dim"), str(line["child"]), "  "))
