"""A run drawn as a tree of its iterations, its agents' runs as trees within it (B9, A17), and runs as a table. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from daemon.cli.drawing_house import draw_aside
from daemon.cli.drawing_text import COLOURS, Line, coloured, head, local, printable, spent, spent_tokens, told, took, usage
from daemon.cli.whole import Whole
from daemon.door.base import RunLine
from daemon.loops.questions import house_question

FOLDED, KEPT = 40, 25
OF_A_REPLY = ("judge", "reflection")


def draw_runs(lines: Sequence[RunLine]) -> Table:
    """Runs at a glance."""
    drawn = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("turn", "session", "state", "why", "started", "took"):
        drawn.add_column(name, no_wrap=name != "session", overflow="fold")
    for line in lines:
        reason, started = coloured(line.stop_reason or ""), local(line.started)[:-3]
        drawn.add_row(line.turn, _where(line), coloured(line.state), reason, started, took(line))
    return drawn


def _where(line: RunLine) -> Text:
    """The session, and who answers in it; a sub-agent's own session says less than its name."""
    if line.parent:
        return Text.assemble(("agent ", "dim"), printable(line.agent))
    agent = "" if line.agent == "default" else f" ({printable(line.agent)})"
    return Text.assemble(printable(line.session), (agent, "dim"))


def draw_run(whole: Whole) -> Tree:
    """One run, step by step."""
    run = whole.run
    title = Text.assemble(("turn ", "dim"), (run.turn, "bold"), ("  session ", "dim"), printable(run.session), "  ")
    if run.agent != "default":
        title = Text.assemble(title, ("agent ", "dim"), printable(run.agent), "  ")
    drawing = Drawing(Tree(title, guide_style="dim"), whole)
    if run.parent:
        drawing.root.add(told("set to work by", f"turn {run.parent}", "dim"))
    for line in whole.transcript:
        drawing.add(line)
    return drawing.finished()


@dataclass(slots=True)
class Drawing:
    """The tree so far: the branch of the iteration under way, and one twig per call."""

    root: Tree
    whole: Whole
    branch: Tree | None = None
    calls: dict[str, Tree] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    def add(self, line: Line) -> None:
        """Draw one line of the transcript where it belongs."""
        match line["kind"]:
            case "UserSaid" | "Steered":
                self._said(line)
            case "ModelAsked":
                closing = "closing answer" if line["closing"] else f"iteration {line['iteration']}"
                self.branch = self.root.add(told(closing, f"{line['provider']}/{line['model']}", "bold"))
            case "ModelRetried" | "ModelFailed" | "ModelReplied":
                self._model(line)
            case "CallJudged" | "ApprovalAsked" | "ApprovalAnswered" | "ToolStarted" | "ToolRetried" | "ToolFinished":
                self._call(line)
            case "ChildSpawned" | "ChildReturned":
                self._child(line)
            case "TurnEnded":
                self._ended(line)
            case _:
                self._aside(line)

    def finished(self) -> Tree:
        """With what is known of the run as a whole."""
        run = self.whole.run
        if isinstance(self.root.label, Text):
            self.root.label.append_text(coloured(run.state))
            self.root.label.append("  untrusted" if run.label == "untrusted" else "", style="red")
        if run.tainted:
            self.root.add(Text.assemble(("untrusted: ", "red"), printable(run.tainted)))
        for notice in run.notices:
            self.root.add(Text.assemble(("notice: ", "yellow"), printable(notice)))
        if run.reactions:
            self.root.add(Text.assemble(("reactions: ", "dim"), printable(" ".join(run.reactions))))
        self.root.add(Text(spent(run), style="dim"))
        if self.whole.children:
            self.root.add(Text(f"with its agents: {spent_tokens(self.whole.usage)}", style="dim"))
        return self.root

    def _aside(self, line: Line) -> None:
        """What concerns a call hangs at it, what concerns a reply at its iteration."""
        of_reply = line["kind"] == "Verified" or line.get("purpose") in OF_A_REPLY
        place = self.branch if of_reply and self.branch else self.root
        if line["kind"] == "TodosSet" and (twig := self.calls.get(str(line["call_id"]))):
            place, twig.label = twig, Text("todo", "bold cyan")  # the plan below it says it all
        draw_aside(place, line)

    def _said(self, line: Line) -> None:
        if line["kind"] == "Steered":
            self.root.add(told(f"steered {printable(line['sender'])}", head(line["text"]), "bold magenta"))
            return
        who = "task" if self.whole.run.parent else f"user {printable(line['sender'])}"
        twig = self.root.add(told(who, head(line["text"]), "bold magenta"))
        if line.get("intent"):
            twig.label = Text.assemble(twig.label if isinstance(twig.label, Text) else "", (f"  ({line['intent']})", "dim"))
        memories = line.get("memories")
        for memory in memories if isinstance(memories, list) else []:
            twig.add(told("memory", head(memory["text"]), "dim"))

    def _model(self, line: Line) -> None:
        branch = self.branch or self.root
        match line["kind"]:
            case "ModelRetried":
                then = f"after {line['wait_s']} s {line['next_provider']}/{line['next_model']}"
                branch.add(told(f"retry ({line['error']})", f"{head(line['message'])}; {then}", "yellow"))
            case "ModelFailed":
                branch.add(told(f"failed ({line['error']})", head(line["message"]), "red"))
            case _:
                self._replied(branch, line)

    def _replied(self, branch: Tree, line: Line) -> None:
        branch.label = Text.assemble(branch.label if isinstance(branch.label, Text) else "", (f"  {usage(line)}", "dim"))
        if line["text"]:
            branch.add(Text(head(line["text"])))
        calls = line["calls"]
        for index, call in enumerate(calls if isinstance(calls, list) else []):
            twig = branch.add(told(printable(call["name"]), head(call["arguments"]), "bold cyan"))
            self.calls[f"{line['seq']}.{index}"] = twig

    def _call(self, line: Line) -> None:
        twig = self.calls.get(str(line["call_id"])) or self.branch or self.root
        match line["kind"]:
            case "CallJudged":
                said = Text.assemble((f"{line['effect']}: ", "dim"), coloured(str(line["decision"])))
                twig.add(said.append(f"  {printable(line['reason'])}", style="dim"))
            case "ApprovalAsked":
                twig.add(_asked(line))
            case "ApprovalAnswered":
                reason = f": {printable(line['reason'])}" if line["reason"] else ""
                twig.add(told("answered", f"{line['answer']} by {printable(line['by'])}{reason}", "yellow"))
            case "ToolStarted":
                twig.add(Text(f"started (attempt {line['attempt']})", style="dim"))
            case "ToolRetried":
                twig.add(told(f"retry {line['attempt']}", f"{head(line['error'])}; after {line['wait_s']} s", "yellow"))
            case _:
                _result(twig, line, known=str(line["call_id"]) in self.answered)

    def _child(self, line: Line) -> None:
        """A sub-agent's run is a tree at the call, or for the step, that it was set to work by; folded where it is long."""
        child = next((one for one in self.whole.children if one.run.turn == line["child"]), None)
        if line["kind"] == "ChildReturned":
            if child is None:
                self.root.add(told(f"{line['key']} ended {line['stop']}", head(line["text"]), "bold green"))
            return
        twig = (self.calls.get(str(line["key"])) or self.root).add(_agent(line))
        if child is None:
            twig.add(told("task", head(line["task"]), "bold magenta"))
            return
        drawing, lines = Drawing(twig, child), child.transcript
        folded = len(lines) > FOLDED
        for inner in lines[:KEPT] if folded else lines:
            drawing.add(inner)
        if folded:
            rest = f"... {len(lines) - KEPT - 1} events more: aidaemon show {child.run.turn}"
            twig.add(Text(rest, "dim"))
            drawing.add(lines[-1])
        drawing.finished()
        if not line["report"]:
            self.answered.add(str(line["key"]))

    def _ended(self, line: Line) -> None:
        reason = told("ended", printable(line["reason"]), COLOURS.get(str(line["reason"]), "yellow"))
        end = self.root.add(reason.append(f"  {printable(line['detail'])}" if line["detail"] else ""))
        end.add(Text(printable(line["reply"])))


def _asked(line: Line) -> Text:
    house = house_question(str(line["tool"]), str(line["arguments"]))
    expires = f"expires {local(str(line['expires']))}"
    return told(f"asked: {printable(house.title)}" if house else "approval asked", expires, "yellow")


def _result(twig: Tree, line: Line, *, known: bool) -> None:
    """`known`: the text is the answer of an agent whose run stands right above."""
    code = "" if line["exit_code"] is None else f"exit code {line['exit_code']}, "
    result = twig.add(coloured(str(line["outcome"])).append(f"  {code}{line['seconds']:.2f} s", style="dim"))
    if line.get("repeat_of"):
        result.add(Text(f"the result of call {line['repeat_of']} again; it was not run a second time", style="yellow"))
    if not known:
        result.add(Text(head(line["text"])))


def _agent(line: Line) -> Text:
    step = "" if str(line["key"])[:1].isdigit() else f"{printable(line['key'])}  "
    where = "in the background  " if line["report"] else ""
    label = Text.assemble(("agent ", "bold green"), (printable(line["agent"]), "bold"), f"  {step}{where}")
    return label.append_text(Text.assemble(("turn ", "dim"), str(line["child"]), "  "))
