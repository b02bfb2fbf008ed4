"""A run drawn as a tree of its iterations, and runs as a table. Pure: what it is given, it draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from daemon.door.base import RunLine, RunView

HEAD_LINES, HEAD_CHARS = 6, 600
COLOURS = {
    "ended": "green",
    "running": "cyan",
    "queued": "blue",
    "suspended": "yellow",
    "quarantined": "red",
    "ok": "green",
    "done": "green",
    "error": "red",
    "rejected": "yellow",
    "unknown": "bold red",
    "not_run": "yellow",
    "allow": "green",
    "ask": "yellow",
    "deny": "red",
}

Line = Mapping[str, object]


def draw_runs(lines: Sequence[RunLine]) -> Table:
    """Runs at a glance."""
    drawn = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("turn", "session", "state", "why it ended", "started", "took"):
        drawn.add_column(name, no_wrap=name != "session", overflow="fold")
    for line in lines:
        reason, started = coloured(line.stop_reason or ""), local(line.started)[:-3]
        drawn.add_row(line.turn, printable(line.session), coloured(line.state), reason, started, took(line))
    return drawn


def draw_run(run: RunView, transcript: Sequence[Line]) -> Tree:
    """One run, step by step."""
    title = Text.assemble(("turn ", "dim"), (run.turn, "bold"), ("  session ", "dim"), printable(run.session), "  ")
    title.append_text(coloured(run.state))
    if run.label == "untrusted":
        title.append("  untrusted", style="red")
    drawing = Drawing(Tree(title, guide_style="dim"))
    for line in transcript:
        drawing.add(line)
    for notice in run.notices:
        drawing.root.add(Text.assemble(("notice: ", "yellow"), printable(notice)))
    drawing.root.add(Text(spent(run), style="dim"))
    return drawing.root


def coloured(state: str) -> Text:
    """A state or an outcome, in its colour."""
    return Text(printable(state), style=COLOURS.get(state, ""))


def printable(text: object) -> str:
    """Text from anywhere, unable to move the cursor or colour the screen."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in str(text))


def head(text: object) -> str:
    """Its beginning, and how much was left out."""
    whole = printable(text).strip()
    short = "\n".join(whole.split("\n")[:HEAD_LINES])[:HEAD_CHARS].rstrip()
    left_out = len(whole) - len(short)
    return f"{short}\n... {left_out} characters more" if left_out else short


def local(instant: str | None) -> str:
    """An ISO instant on the reader's clock."""
    return f"{datetime.fromisoformat(instant).astimezone():%Y-%m-%d %H:%M:%S}" if instant else ""


def took(line: RunLine) -> str:
    """How long it was, from its beginning to its end, waiting for people included."""
    if not line.started or not line.ended:
        return ""
    seconds = (datetime.fromisoformat(line.ended) - datetime.fromisoformat(line.started)).total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def spent(run: RunView) -> str:
    """What the run used up; a price that is not known is not shown as nothing."""
    price = "price unknown" if run.usage.usd is None else f"{run.usage.usd:.4f} USD"
    tokens = f"{run.usage.input_tokens} tokens in ({run.usage.cached_tokens} cached), {run.usage.output_tokens} out"
    iterations = f"{run.iterations} iteration{'' if run.iterations == 1 else 's'}"
    return f"{iterations}, {tokens}, {price}"


@dataclass(slots=True)
class Drawing:
    """The tree so far: the branch of the iteration under way, and one twig per call."""

    root: Tree
    branch: Tree | None = None
    calls: dict[str, Tree] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Draw one line of the transcript where it belongs."""
        match line["kind"]:
            case "UserSaid" | "Steered":
                self._said(line)
            case "ModelAsked":
                closing = "closing answer" if line["closing"] else f"iteration {line['iteration']}"
                self.branch = self.root.add(_told(closing, f"{line['provider']}/{line['model']}", "bold"))
            case "ModelRetried" | "ModelFailed" | "ModelReplied":
                self._model(line)
            case "CallJudged" | "ApprovalAsked" | "ApprovalAnswered" | "ToolStarted" | "ToolRetried" | "ToolFinished":
                self._call(line)
            case "TurnEnded":
                reason = _told("ended", printable(line["reason"]), COLOURS.get(str(line["reason"]), "yellow"))
                end = self.root.add(reason.append(f"  {printable(line['detail'])}" if line["detail"] else ""))
                end.add(Text(printable(line["reply"])))
            case _:
                self._aside(line)

    def _said(self, line: Line) -> None:
        who = "steered" if line["kind"] == "Steered" else "user"
        self.root.add(_told(f"{who} {printable(line['sender'])}", head(line["text"]), "bold magenta"))

    def _model(self, line: Line) -> None:
        branch = self.branch or self.root
        match line["kind"]:
            case "ModelRetried":
                then = f"after {line['wait_s']} s {line['next_provider']}/{line['next_model']}"
                branch.add(_told(f"retry ({line['error']})", f"{head(line['message'])}; {then}", "yellow"))
            case "ModelFailed":
                branch.add(_told(f"failed ({line['error']})", head(line["message"]), "red"))
            case _:
                self._replied(branch, line)

    def _replied(self, branch: Tree, line: Line) -> None:
        branch.label = Text.assemble(branch.label if isinstance(branch.label, Text) else "", (f"  {usage(line)}", "dim"))
        if line["text"]:
            branch.add(Text(head(line["text"])))
        calls = line["calls"]
        for index, call in enumerate(calls if isinstance(calls, list) else []):
            twig = branch.add(_told(printable(call["name"]), head(call["arguments"]), "bold cyan"))
            self.calls[f"{line['seq']}.{index}"] = twig

    def _call(self, line: Line) -> None:
        twig = self.calls.get(str(line["call_id"])) or self.branch or self.root
        match line["kind"]:
            case "CallJudged":
                said = Text.assemble((f"{line['effect']}: ", "dim"), coloured(str(line["decision"])))
                twig.add(said.append(f"  {printable(line['reason'])}", style="dim"))
            case "ApprovalAsked":
                twig.add(_told("approval asked", f"expires {local(str(line['expires']))}", "yellow"))
            case "ApprovalAnswered":
                reason = f": {printable(line['reason'])}" if line["reason"] else ""
                twig.add(_told("answered", f"{line['answer']} by {printable(line['by'])}{reason}", "yellow"))
            case "ToolStarted":
                twig.add(Text(f"started (attempt {line['attempt']})", style="dim"))
            case "ToolRetried":
                twig.add(_told(f"retry {line['attempt']}", f"{head(line['error'])}; after {line['wait_s']} s", "yellow"))
            case _:
                code = "" if line["exit_code"] is None else f"exit code {line['exit_code']}, "
                result = twig.add(coloured(str(line["outcome"])).append(f"  {code}{line['seconds']:.2f} s", style="dim"))
                result.add(Text(head(line["text"])))

    def _aside(self, line: Line) -> None:
        """What the house itself did."""
        match line["kind"]:
            case "Coached":
                told = _told(f"coached ({printable(line['kind_'])})", head(line["text"]), "yellow")
            case "Suspended":
                told = _told("waits for a person", head(line["waiting_for"]), "yellow")
            case "TurnResumed":
                told = _told("resumed", head(line["why"]), "yellow")
            case "BudgetExtended":
                told = _told(f"limit raised to {line['max_iterations']} iterations", head(line["reason"]), "yellow")
            case kind:
                told = _told(str(kind), head({name: line[name] for name in line if name not in ("seq", "at", "kind")}), "yellow")
        self.root.add(told)


def usage(line: Line) -> str:
    """What one model call took."""
    used = line["usage"]
    if not isinstance(used, Mapping):
        return ""
    price = "" if used["usd"] is None else f", {used['usd']:.4f} USD"
    tokens = f"{used['input_tokens']} in ({used['cached_tokens']} cached), {used['output_tokens']} out"
    return f"{line['seconds']:.1f} s, {tokens}{price}"


def _told(what: str, text: str, style: str) -> Text:
    return Text.assemble((what, style), "  ", text)
