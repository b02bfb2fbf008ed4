"""A run as a tree of its iterations, with the runs of its sub-agents (B9, A17): what the terminal
and the page draw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from daemon.agent.system_questions import parse_system_question
from daemon.client.view_types import STATE_TONES, RunView, UsageView, format_local_time
from daemon.client.views import RunBundle
from daemon.core.events import Todo
from daemon.core.turn import render_plan
from daemon.core.turn_spec import describe_budget

HEAD_LINES, HEAD_CHARS = 6, 600
FOLD_ABOVE, SHOWN_WHEN_FOLDED = 40, 25
TEXT_LISTS = ("waiting_for", "call_ids")
REPLY_PURPOSES = ("judge", "reflection")
DIM, STRONG, PERSON, MODEL, TOOL, AGENT, WARN, BAD = (
    *("dim", "strong", "person", "model", "tool", "agent", "warn", "bad"),
)
LINES = {  # kind of event: label, text, tone
    "Alarm": ("alarm ({kind_})", "{text}", BAD),
    "ApprovalAnswered": ("answered", "{answer} by {by}{reason}", WARN),
    "ApprovalAsked": ("{asked}", "expires {expires}", WARN),
    "BudgetExtended": ("limit raised to {max_iterations} iterations", "{reason}", WARN),
    "BudgetRaised": ("budget raised", "{raised}", WARN),
    "CallJudged": ("{effect}: {decision}", "{reason}", "{decision}"),
    "ChildReturned": ("{key} ended {stop}", "{text}", AGENT),
    "Classified": ("intent", "{intent}", DIM),
    "Coached": ("coached ({kind_})", "{text}", WARN),
    "Consulted": ("consulted ({purpose})", "{answered}", MODEL),
    "Consulting": (
        "consulted ({purpose})",
        "{provider}/{model}  no answer is known; counted as spent",
        MODEL,
    ),
    "HistoryCompressed": ("compressed ({strategy})", "{sizes}", MODEL),
    "IterationRefunded": ("this iteration does not count: housekeeping only", "", DIM),
    "MessageQueued": ("queued for {chat}", "due {due}", WARN),
    "ModelAsked": ("{name}", "{provider}/{model}", STRONG),
    "ModelFailed": ("failed ({error})", "{message}", BAD),
    "ModelRetried": (
        "retry ({error})",
        "{message}; after {wait_s} s {next_provider}/{next_model}",
        WARN,
    ),
    "RequestAdapted": ("refused, asked again", "{message}; left out: {left_out}", WARN),
    "Steered": ("steered {sender}", "{text}", PERSON),
    "Suspended": ("waits for a person", "{waiting_for}", WARN),
    "TodosSet": ("plan", "{done}", MODEL),
    "ToolRetried": ("retry {attempt}", "{error}; after {wait_s} s", WARN),
    "ToolStarted": ("started (attempt {attempt})", "", DIM),
    "TurnEnded": ("ended", "{reason}{detail}", "{reason}"),
    "TurnResumed": ("resumed", "{why}", WARN),
    "UserSaid": ("user {sender}", "{text}{intent}", PERSON),
    "Verified": ("check {check}", "{result}", "{result}"),
}
CALL_KINDS = ("CallJudged", "ApprovalAsked", "ApprovalAnswered", "ToolStarted", "ToolRetried")
ITERATION_KINDS = ("ModelRetried", "RequestAdapted", "ModelFailed", "Verified")

Line = Mapping[str, Any]  # an event of the transcript as JSON
Span = tuple[str, str]  # a text and its tone


@dataclass(slots=True)
class TreeNode:
    """What stands in one place: pieces of text with their tones, and what belongs below.

    `seq`: the event that it shows, 0 for none; `seconds` and `usd` of what it did; `turn`: a run of
    its own; `tainted`: here the run became untrusted; `cut`: texts were shortened.
    """

    spans: list[Span]
    seq: int = 0
    kind: str = ""
    at: str = ""
    seconds: float | None = None
    usd: float | None = None
    turn: str = ""
    tainted: bool = False
    cut: bool = False
    nodes: list["TreeNode"] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """As JSON, without what says nothing."""
        given: dict[str, object] = {"spans": self.spans}
        for name in ("seq", "kind", "at", "seconds", "usd", "turn", "tainted", "cut"):
            if found := getattr(self, name):
                given[name] = found
        if self.nodes:
            given["nodes"] = [node.to_json() for node in self.nodes]
        return given

    def add(self, *spans: Span) -> "TreeNode":
        """A node below this one."""
        node = TreeNode([*spans])
        self.nodes.append(node)
        return node


def build_tree(bundle: RunBundle) -> TreeNode:
    """One run, step by step."""
    run = bundle.run
    title: list[Span] = [
        *(("turn ", DIM), (run.turn, STRONG), ("  session ", DIM)),
        (f"{replace_unprintable(run.session)}  ", ""),
    ]
    if run.agent != "default":
        title += [("agent ", DIM), (f"{replace_unprintable(run.agent)}  ", "")]
    tree = TreeBuilder(TreeNode(title, turn=run.turn), bundle)
    if run.parent:
        tree.root.add(*_join("started by", f"turn {run.parent}", DIM)).turn = run.parent
    for line in bundle.transcript:
        tree.add(line)
    return tree.finish()


@dataclass(slots=True)
class TreeBuilder:
    """The tree so far: the branch of the current iteration, and a node for each call."""

    root: TreeNode
    bundle: RunBundle
    branch: TreeNode | None = None
    consulting: TreeNode | None = None
    calls: dict[str, TreeNode] = field(default_factory=dict)
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
                    parent, call.spans = call, [("todo", TOOL)]  # the plan is its argument
                self._add_line(parent, line)

    def _mark(self, node: TreeNode, line: Line, texts: Sequence[object] = ()) -> TreeNode:
        """What every node of an event has."""
        node.seq, node.kind, node.at = line["seq"], line["kind"], line["at"]
        node.cut = any(is_cut(text) for text in texts)
        node.tainted = self.bundle.run.tainted.endswith(f"(event {node.seq})")
        return node

    def _add_line(self, parent: TreeNode, line: Line) -> None:
        label, details = describe(line)
        if line["kind"] == "UserSaid" and self.bundle.run.parent:
            label = _join("task", line["text"], PERSON)
        if line["kind"] == "Consulted" and self.consulting:
            node, self.consulting.spans = self.consulting, label
        else:
            node = parent.add(*label)
        self._mark(node, line, [*line.values()])
        node.seconds = line.get("seconds") if line["kind"] == "Consulted" else None
        node.usd = line["usage"]["usd"] if line["kind"] == "Consulted" else None
        for detail in details:
            node.add(*detail)
        self.consulting = node if line["kind"] == "Consulting" else None
        if line["kind"] == "ModelAsked":
            self.branch = node

    def _add_reply(self, line: Line) -> None:
        branch = self.branch or self.root
        branch.spans.append((f"  {format_call_usage(line)}", DIM))
        branch.seconds, branch.usd = line["seconds"], line["usage"]["usd"]
        if line["text"]:
            self._mark(branch.add((shorten(line["text"]), "")), line, [line["text"]])
        for index, call in enumerate(line["calls"]):
            label = _join(replace_unprintable(call["name"]), call["arguments"], TOOL)
            node = self._mark(branch.add(*label), line, [call["arguments"]])
            self.calls[f"{line['seq']}.{index}"] = node

    def _add_result(self, parent: TreeNode, line: Line) -> None:
        code = "" if line["exit_code"] is None else f"exit code {line['exit_code']}, "
        outcome = line["outcome"], STATE_TONES.get(line["outcome"], "")
        result = parent.add(outcome, (f"  {code}{line['seconds']:.2f} s", DIM))
        self._mark(result, line, [line["text"]]).seconds = line["seconds"]
        parent.seconds = (parent.seconds or 0.0) + line["seconds"] if parent.kind else None
        if line.get("repeat_of"):
            again = (
                f"the result of call {line['repeat_of']} again; the tool did not run a second time"
            )
            result.add((again, WARN))
        if line["call_id"] not in self.shown_replies:
            result.add((shorten(line["text"]), ""))

    def _add_subagent(self, line: Line) -> None:
        """The run of a sub-agent; of a long one the beginning and the end."""
        key, child = str(line["key"]), self.children.get(line["child"])
        name = "" if key[:1].isdigit() else f"{replace_unprintable(key)}  "
        node = (self.calls.get(key) or self.root).add(
            ("agent ", AGENT),
            (replace_unprintable(line["agent"]), STRONG),
            (f"  {name}{'in the background  ' if line['report'] else ''}", ""),
            ("turn ", DIM),
            (f"{line['child']}  ", ""),
        )
        self._mark(node, line).turn = line["child"]
        if child is None:
            node.add(*_join("task", line["task"], PERSON))
            return
        tree, lines = TreeBuilder(node, child), child.transcript
        is_folded = len(lines) > FOLD_ABOVE
        for inner in lines[:SHOWN_WHEN_FOLDED] if is_folded else lines:
            tree.add(inner)
        if is_folded:
            hidden = len(lines) - SHOWN_WHEN_FOLDED - 1
            node.add((f"... {hidden} events more: aidaemon show {child.run.turn}", DIM))
            tree.add(lines[-1])
        tree.finish()
        if not line["report"]:
            self.shown_replies.add(key)

    def finish(self) -> TreeNode:
        """Add what is known of the run as a whole."""
        run = self.bundle.run
        self.root.spans.append((run.state, STATE_TONES.get(run.state, "")))
        if run.label == "untrusted":
            self.root.spans.append(("  untrusted", BAD))
        for name, tone, text in _list_remarks(run):
            if text:
                self.root.add((name, tone), (replace_unprintable(text), ""))
        iterations = _pluralize(run.iterations, "iteration")
        self.root.add((f"{iterations}, {format_usage(run.usage)}", DIM))
        if self.bundle.children:
            self.root.add((f"with its agents: {format_usage(self.bundle.usage)}", DIM))
        return self.root


def _list_remarks(run: RunView) -> list[tuple[str, str, str]]:
    """(name, tone, text) of what is known of a run beside its events."""
    return [
        ("untrusted: ", BAD, run.tainted),
        ("private: ", DIM, ", ".join(run.private)),
        *(("notice: ", WARN, notice) for notice in run.notices),
        *(("outgoing: ", WARN, message) for message in run.outgoing),
        ("reactions: ", DIM, " ".join(run.reactions)),
    ]


def describe(line: Line) -> tuple[list[Span], list[list[Span]]]:
    """The label of an event, and what stands below it. An unknown kind is shown as it is."""
    kind = line["kind"]
    if kind not in LINES:
        rest = {name: line[name] for name in line if name not in ("seq", "at", "kind")}
        return _join(kind, rest, WARN), []
    shown = {
        name: shorten(", ".join(v) if isinstance(v, list) and name in TEXT_LISTS else v)
        for name, v in line.items()
    }
    details = _add_details(line, shown)
    label, text, tone = (part.format_map(shown) for part in LINES[kind])
    return _join(label, text, STATE_TONES.get(tone, tone)), details


def _add_details(line: Line, shown: dict[str, str]) -> list[list[Span]]:
    """Add texts that a line of LINES needs beside the fields; what stands below it."""
    match line["kind"]:
        case "UserSaid":
            shown["intent"] = f"  ({line['intent']})" if line.get("intent") else ""
            return [_join("memory", memory["text"], DIM) for memory in line.get("memories") or ()]
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
            return [[(render_plan(todos), "")]]
        case "HistoryCompressed":
            dropped = _pluralize(line["dropped_own"], "message")
            shown["sizes"] = (
                f"{line['tokens_before']:,} -> {line['tokens_after']:,} tokens"
                f"  still shown: {_pluralize(line['kept_earlier'], 'turn')} before this one"
            ) + (f", left out: {dropped} of this one" if line["dropped_own"] else "")
            return [[(shown["summary"], "")]] if line["summary"] else []
        case "Verified":
            shown["result"] = "passed" if line["passed"] else "failed"
            return [_join(name, line[name], WARN) for name in ("feedback", "note") if line[name]]
        case "Consulted" if line["error"]:
            shown["answered"] = "no model answered"
            return [_join("failed", line["error"], BAD)]
        case "Consulted":
            shown["answered"] = f"{shown['provider']}/{shown['model']}  {format_call_usage(line)}"
            return [[(shown["text"], "")]] if line["text"] else []
        case "TurnEnded":
            shown["detail"] = f"  {shown['detail']}" if line["detail"] else ""
            return [[(replace_unprintable(line["reply"]), "")]]
    return []


def _join(label: str, text: object, tone: str) -> list[Span]:
    text = shorten(text)
    return [(label, tone), ("  ", ""), (text, "")] if text else [(label, tone)]


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


def is_cut(text: object) -> bool:
    """Whether `shorten` may leave something out."""
    return isinstance(text, str) and (len(text) > HEAD_CHARS or text.count("\n") >= HEAD_LINES)


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
