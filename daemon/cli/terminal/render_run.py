"""A run as a tree of its iterations, with the runs of its sub-agents (B9, A17)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text
from rich.tree import Tree

from daemon.agent.system_questions import parse_system_question
from daemon.cli.runs import COLORS, format_local_time
from daemon.client.protocol import UsageView
from daemon.client.views import RunBundle
from daemon.core.events import Todo
from daemon.core.turn import render_plan
from daemon.core.turn_spec import describe_budget

HEAD_LINES, HEAD_CHARS = 6, 600
FOLD_ABOVE, SHOWN_WHEN_FOLDED = 40, 25
TEXT_LISTS = ("waiting_for", "call_ids")
REPLY_PURPOSES = ("judge", "reflection")
BLUE, MAGENTA = "bold blue", "bold magenta"
LINES = {  # kind of event: label, text, style
    "Alarm": ("alarm ({kind_})", "{text}", "bold red"),
    "ApprovalAnswered": ("answered", "{answer} by {by}{reason}", "yellow"),
    "ApprovalAsked": ("{asked}", "expires {expires}", "yellow"),
    "BudgetExtended": ("limit raised to {max_iterations} iterations", "{reason}", "yellow"),
    "BudgetRaised": ("budget raised", "{raised}", "yellow"),
    "CallJudged": ("{effect}: {decision}", "{reason}", "{decision}"),
    "ChildReturned": ("{key} ended {stop}", "{text}", "bold green"),
    "Classified": ("intent", "{intent}", "dim"),
    "Coached": ("coached ({kind_})", "{text}", "yellow"),
    "Consulted": ("consulted ({purpose})", "{answered}", BLUE),
    "Consulting": (
        "consulted ({purpose})",
        "{provider}/{model}  no answer is known; counted as spent",
        BLUE,
    ),
    "HistoryCompressed": ("compressed ({strategy})", "{sizes}", BLUE),
    "IterationRefunded": ("this iteration does not count: housekeeping only", "", "dim"),
    "MessageQueued": ("queued for {chat}", "due {due}", "yellow"),
    "ModelAsked": ("{name}", "{provider}/{model}", "bold"),
    "ModelFailed": ("failed ({error})", "{message}", "red"),
    "ModelRetried": (
        "retry ({error})",
        "{message}; after {wait_s} s {next_provider}/{next_model}",
        "yellow",
    ),
    "RequestAdapted": ("refused, asked again", "{message}; left out: {left_out}", "yellow"),
    "Steered": ("steered {sender}", "{text}", MAGENTA),
    "Suspended": ("waits for a person", "{waiting_for}", "yellow"),
    "TodosSet": ("plan", "{done}", BLUE),
    "ToolRetried": ("retry {attempt}", "{error}; after {wait_s} s", "yellow"),
    "ToolStarted": ("started (attempt {attempt})", "", "dim"),
    "TurnEnded": ("ended", "{reason}{detail}", "{reason}"),
    "TurnResumed": ("resumed", "{why}", "yellow"),
    "UserSaid": ("user {sender}", "{text}{intent}", MAGENTA),
    "Verified": ("check {check}", "{result}", "{result}"),
}
CALL_KINDS = ("CallJudged", "ApprovalAsked", "ApprovalAnswered", "ToolStarted", "ToolRetried")
ITERATION_KINDS = ("ModelRetried", "RequestAdapted", "ModelFailed", "Verified")

Line = Mapping[str, Any]  # an event of the transcript as JSON


def render_run(bundle: RunBundle) -> Tree:
    """One run, step by step."""
    run = bundle.run
    title = Text.assemble(("turn ", "dim"), (run.turn, "bold"), ("  session ", "dim"))
    title.append(f"{replace_unprintable(run.session)}  ")
    if run.agent != "default":
        title.append("agent ", "dim").append(f"{replace_unprintable(run.agent)}  ")
    tree = RunTree(Tree(title, guide_style="dim"), bundle)
    if run.parent:
        tree.root.add(_join("started by", f"turn {run.parent}", "dim"))
    for line in bundle.transcript:
        tree.add(line)
    return tree.finish()


@dataclass(slots=True)
class RunTree:
    """The tree so far: the branch of the current iteration, and a node for each call."""

    root: Tree
    bundle: RunBundle
    branch: Tree | None = None
    consulting: Tree | None = None
    calls: dict[str, Tree] = field(default_factory=dict)
    shown_replies: set[str] = field(default_factory=set)

    @property
    def children(self) -> dict[str, RunBundle]:
        """The runs of its sub-agents."""
        return {child.run.turn: child for child in self.bundle.children}

    def add(self, line: Line) -> None:
        """Add a line of the transcript where it belongs: at its call, its iteration or run."""
        kind, parent = line["kind"], self.root
        call = self.calls.get(str(line.get("call_id")))
        if kind in CALL_KINDS or kind == "ToolFinished":
            parent = call or self.branch or self.root
        elif kind in ITERATION_KINDS or line.get("purpose") in REPLY_PURPOSES:
            parent = self.branch or self.root
        match kind:
            case "ModelReplied":
                self._add_reply(line)
            case "ToolFinished":
                self._add_result(parent, line)
            case "ChildSpawned":
                self._add_subagent(line)
            case "ChildReturned" if line["child"] in self.children:
                pass  # its own tree says so
            case _:
                if kind == "TodosSet" and call:
                    parent, call.label = call, Text("todo", "bold cyan")  # the plan is its argument
                self._add_line(parent, line)

    def _add_line(self, parent: Tree, line: Line) -> None:
        label, details = describe(line)
        if line["kind"] == "UserSaid" and self.bundle.run.parent:
            label = _join("task", line["text"], MAGENTA)
        if line["kind"] == "Consulted" and self.consulting:
            node, self.consulting.label = self.consulting, label
        else:
            node = parent.add(label)
        for detail in details:
            node.add(detail)
        self.consulting = node if line["kind"] == "Consulting" else None
        if line["kind"] == "ModelAsked":
            self.branch = node

    def _add_reply(self, line: Line) -> None:
        branch = self.branch or self.root
        branch.label = Text.assemble(branch.label, (f"  {format_call_usage(line)}", "dim"))  # type: ignore[arg-type]  # ours are Text
        if line["text"]:
            branch.add(Text(shorten(line["text"])))
        for index, call in enumerate(line["calls"]):
            label = _join(replace_unprintable(call["name"]), call["arguments"], "bold cyan")
            self.calls[f"{line['seq']}.{index}"] = branch.add(label)

    def _add_result(self, parent: Tree, line: Line) -> None:
        code = "" if line["exit_code"] is None else f"exit code {line['exit_code']}, "
        outcome = Text(line["outcome"], COLORS.get(line["outcome"], ""))
        result = parent.add(outcome.append(f"  {code}{line['seconds']:.2f} s", style="dim"))
        if line.get("repeat_of"):
            again = (
                f"the result of call {line['repeat_of']} again; the tool did not run a second time"
            )
            result.add(Text(again, style="yellow"))
        if line["call_id"] not in self.shown_replies:
            result.add(Text(shorten(line["text"])))

    def _add_subagent(self, line: Line) -> None:
        """The run of a sub-agent; of a long one the beginning and the end."""
        key, child = str(line["key"]), self.children.get(line["child"])
        name = "" if key[:1].isdigit() else f"{replace_unprintable(key)}  "
        label = Text.assemble(
            ("agent ", "bold green"),
            (replace_unprintable(line["agent"]), "bold"),
            f"  {name}{'in the background  ' if line['report'] else ''}",
            ("turn ", "dim"),
            f"{line['child']}  ",
        )
        node = (self.calls.get(key) or self.root).add(label)
        if child is None:
            node.add(_join("task", line["task"], MAGENTA))
            return
        tree, lines = RunTree(node, child), child.transcript
        is_folded = len(lines) > FOLD_ABOVE
        for inner in lines[:SHOWN_WHEN_FOLDED] if is_folded else lines:
            tree.add(inner)
        if is_folded:
            hidden = len(lines) - SHOWN_WHEN_FOLDED - 1
            node.add(Text(f"... {hidden} events more: aidaemon show {child.run.turn}", "dim"))
            tree.add(lines[-1])
        tree.finish()
        if not line["report"]:
            self.shown_replies.add(key)

    def finish(self) -> Tree:
        """Add what is known of the run as a whole."""
        run = self.bundle.run
        if isinstance(self.root.label, Text):
            self.root.label.append(run.state, COLORS.get(run.state, ""))
            self.root.label.append("  untrusted" if run.label == "untrusted" else "", "red")
        notices = (("notice: ", "yellow", notice) for notice in run.notices)
        outgoing = (("outgoing: ", "yellow", message) for message in run.outgoing)
        reactions = "reactions: ", "dim", " ".join(run.reactions)
        private = "private: ", "dim", ", ".join(run.private)
        for name, style, text in (
            ("untrusted: ", "red", run.tainted),
            private,
            *notices,
            *outgoing,
            reactions,
        ):
            if text:
                self.root.add(Text.assemble((name, style), replace_unprintable(text)))
        iterations = _pluralize(run.iterations, "iteration")
        self.root.add(Text(f"{iterations}, {format_usage(run.usage)}", "dim"))
        if self.bundle.children:
            self.root.add(Text(f"with its agents: {format_usage(self.bundle.usage)}", "dim"))
        return self.root


def describe(line: Line) -> tuple[Text, list[Text]]:
    """The label of an event, and what stands below it. An unknown kind is shown as it is."""
    kind = line["kind"]
    if kind not in LINES:
        rest = {name: line[name] for name in line if name not in ("seq", "at", "kind")}
        return _join(kind, rest, "yellow"), []
    shown = {
        name: shorten(", ".join(v) if isinstance(v, list) and name in TEXT_LISTS else v)
        for name, v in line.items()
    }
    details = _add_details(line, shown)
    label, text, style = (part.format_map(shown) for part in LINES[kind])
    return _join(label, text, COLORS.get(style, style)), details


def _add_details(line: Line, shown: dict[str, str]) -> list[Text]:
    """Add texts that a line of LINES needs beside the fields; what stands below it."""
    match line["kind"]:
        case "UserSaid":
            shown["intent"] = f"  ({line['intent']})" if line.get("intent") else ""
            return [_join("memory", memory["text"], "dim") for memory in line.get("memories") or ()]
        case "ModelAsked":
            number = f"iteration {line['iteration']}"
            shown["name"] = "closing answer" if line["closing"] else number
        case "ApprovalAsked":
            question = parse_system_question(line["tool"], line["arguments"])
            title = question and replace_unprintable(question.title)
            shown["asked"] = f"asked: {title}" if title else "approval asked"
            shown["expires"] = format_local_time(line["expires"])
        case "RequestAdapted":
            history = f"history: {line['history']}" if line["history"] else ""
            left = (*line["parameters"], *line["tools"], history)
            shown["left_out"] = ", ".join(filter(None, left))
        case "MessageQueued":
            shown["due"] = format_local_time(line["due"])
        case "ApprovalAnswered":
            shown["reason"] = f": {shown['reason']}" if line["reason"] else ""
        case "BudgetRaised":
            caps = line["limits"].get("max_usd"), line["limits"].get("max_input_tokens")
            shown["raised"] = describe_budget(*caps, line["day_usd"], line["day_tokens"])
        case "TodosSet":
            todos = [
                Todo(replace_unprintable(item["text"]), item["state"]) for item in line["items"]
            ]
            done = sum(item.state == "done" for item in todos)
            shown["done"] = f"{done} of {len(todos)} done"
            return [Text(render_plan(todos))]
        case "HistoryCompressed":
            dropped = _pluralize(line["dropped_own"], "message")
            shown["sizes"] = (
                f"{line['tokens_before']:,} -> {line['tokens_after']:,} tokens"
                f"  still shown: {_pluralize(line['kept_earlier'], 'turn')} before this one"
            ) + (f", left out: {dropped} of this one" if line["dropped_own"] else "")
            return [Text(shown["summary"])] if line["summary"] else []
        case "Verified":
            shown["result"] = "passed" if line["passed"] else "failed"
            return [
                _join(name, line[name], "yellow") for name in ("feedback", "note") if line[name]
            ]
        case "Consulted" if line["error"]:
            shown["answered"] = "no model answered"
            return [_join("failed", line["error"], "red")]
        case "Consulted":
            shown["answered"] = f"{shown['provider']}/{shown['model']}  {format_call_usage(line)}"
            return [Text(shown["text"])] if line["text"] else []
        case "TurnEnded":
            shown["detail"] = f"  {shown['detail']}" if line["detail"] else ""
            return [Text(replace_unprintable(line["reply"]))]
    return []


def _join(label: str, text: object, style: str) -> Text:
    text = shorten(text)
    return Text.assemble((label, style), "  ", text) if text else Text(label, style)


def replace_unprintable(text: object) -> str:
    """The text without characters that move the cursor or change colours."""
    shown = (sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in str(text))
    return "".join(shown)


def shorten(text: object) -> str:
    """The beginning of a text, and how much is left out."""
    whole = replace_unprintable(text).strip()
    short = "\n".join(whole.split("\n")[:HEAD_LINES])[:HEAD_CHARS].rstrip()
    missing = len(whole) - len(short)
    return f"{short}\n... {missing} characters more" if missing else short


def format_usage(usage: UsageView) -> str:
    """Tokens and money; an unknown price is never shown as zero."""
    price = "price unknown" if usage.usd is None else f"{usage.usd:.4f} USD"
    tokens = f"{usage.input_tokens} tokens in ({usage.cached_tokens} cached)"
    return f"{tokens}, {usage.output_tokens} out, {price}"


def format_call_usage(line: Line) -> str:
    """Seconds, tokens and money of one model call."""
    usage = line["usage"]
    price = "" if usage["usd"] is None else f", {usage['usd']:.4f} USD"
    tokens = f"{usage['input_tokens']} in ({usage['cached_tokens']} cached)"
    return f"{line['seconds']:.1f} s, {tokens}, {usage['output_tokens']} out{price}"


def _pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
