"""What the house itself did in a run, drawn: plans, compressions, checks, limits, alarms. Pure."""

from collections.abc import Callable, Mapping

from rich.text import Text
from rich.tree import Tree

from daemon.cli.drawing_text import Line, coloured, count, head, printable, told, usage
from daemon.core.events import Todo
from daemon.core.shown import plan_text

Drawn = Callable[[Tree, Line], None]


def draw_aside(place: Tree, line: Line) -> None:
    """One line of the transcript, where it belongs. What nobody here knows is drawn as it stands."""
    drawn = ASIDES.get(str(line["kind"]))
    if drawn:
        drawn(place, line)
        return
    rest = {name: line[name] for name in line if name not in ("seq", "at", "kind")}
    place.add(told(str(line["kind"]), head(rest), "yellow"))


def _coached(place: Tree, line: Line) -> None:
    place.add(told(f"coached ({printable(line['kind_'])})", head(line["text"]), "yellow"))


def _suspended(place: Tree, line: Line) -> None:
    waiting = line["waiting_for"]
    names = ", ".join(map(str, waiting)) if isinstance(waiting, list | tuple) else str(waiting)
    place.add(told("waits for a person", printable(names), "yellow"))


def _resumed(place: Tree, line: Line) -> None:
    place.add(told("resumed", head(line["why"]), "yellow"))


def _classified(place: Tree, line: Line) -> None:
    place.add(told("intent", printable(line["intent"]), "dim"))


def _plan(place: Tree, line: Line) -> None:
    """A check list: what is done, what is being done, what is left."""
    items = line["items"]
    todos = [Todo(printable(item["text"]), item["state"]) for item in (items if isinstance(items, list) else [])]
    done = sum(item.state == "done" for item in todos)
    place.add(told("plan", f"{done} of {len(todos)} done", "bold blue")).add(Text(plan_text(todos)))


def _compressed(place: Tree, line: Line) -> None:
    sizes = f"{line['tokens_before']:,} -> {line['tokens_after']:,} tokens"
    left_out = [f"still shown: {count(line['kept_earlier'], 'turn')} before this one"]
    left_out += [f"left out: {count(line['dropped_own'], 'message')} of this one"] if line["dropped_own"] else []
    twig = place.add(told(f"compressed ({line['strategy']})", sizes, "bold blue").append(f"  {', '.join(left_out)}", "dim"))
    if line["summary"]:
        twig.add(Text(head(line["summary"])))


def _verified(place: Tree, line: Line) -> None:
    passed = bool(line["passed"])
    twig = place.add(Text.assemble(("check ", "bold"), printable(line["check"]), "  ").append_text(
        coloured("passed" if passed else "failed")
    ))  # fmt: skip
    for what in ("feedback", "note"):
        if line[what]:
            twig.add(told(what, head(line[what]), "yellow"))


def _extended(place: Tree, line: Line) -> None:
    place.add(told(f"limit raised to {line['max_iterations']} iterations", head(line["reason"]), "yellow"))


def _raised(place: Tree, line: Line) -> None:
    limits = line["limits"] if isinstance(line["limits"], Mapping) else {}
    day = [f"{line['day_usd']:g} USD more today"] if line["day_usd"] else []
    day += [f"{line['day_tokens']:,} tokens more today"] if line["day_tokens"] else []
    caps = [f"{limits['max_usd']:g} USD"] if limits.get("max_usd") is not None else []
    caps += [f"{limits['max_input_tokens']:,} tokens in"] if limits.get("max_input_tokens") is not None else []
    place.add(told("budget raised", " and ".join(day or [f"now {' and '.join(caps)} for this run"]), "yellow"))


def _refunded(place: Tree, line: Line) -> None:
    place.add(Text("this iteration does not count: housekeeping only", "dim"))


def _alarm(place: Tree, line: Line) -> None:
    place.add(told(f"alarm ({printable(line['kind_'])})", head(line["text"]), "bold red"))


def _consulting(place: Tree, line: Line) -> None:
    """Its outcome, drawn next, takes this twig over; it stays when the process died in between."""
    place.add(_asked(line).append("  no answer is known; counted as spent", "dim"))


def _consulted(place: Tree, line: Line) -> None:
    last = place.children[-1] if place.children else None
    begun = last is not None and str(last.label).startswith(_purpose(line))
    twig = last if last is not None and begun else place.add(_asked(line))
    if line["error"]:
        twig.label = told(_purpose(line), "nobody answered", "bold blue")
        twig.add(told("failed", head(line["error"]), "red"))
        return
    twig.label = _asked(line).append(f"  {usage(line)}", "dim")
    if line["text"]:
        twig.add(Text(head(line["text"])))


def _asked(line: Line) -> Text:
    return told(_purpose(line), printable(f"{line['provider']}/{line['model']}"), "bold blue")


def _purpose(line: Line) -> str:
    return f"consulted ({printable(line['purpose'])})"


ASIDES: Mapping[str, Drawn] = {
    "Coached": _coached,
    "Suspended": _suspended,
    "TurnResumed": _resumed,
    "Classified": _classified,
    "TodosSet": _plan,
    "HistoryCompressed": _compressed,
    "Verified": _verified,
    "BudgetExtended": _extended,
    "BudgetRaised": _raised,
    "IterationRefunded": _refunded,
    "Alarm": _alarm,
    "Consulting": _consulting,
    "Consulted": _consulted,
}
