"""What moves below the finished lines: drafts, work, plans; and a line that sums the session up."""

from dataclasses import dataclass, field

from rich.cells import cell_len, chop_cells

from channels.markup.sanitize import escape_invisible, shorten_line
from daemon.cli.review.runs import format_cost
from daemon.cli.terminal.items import Activity, PlanSteps
from daemon.cli.terminal.markdown import render_draft
from daemon.client.protocol import COMPLETED
from daemon.client.view_types import LiveEvent

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
FRAME_SECONDS = 0.1
SHOW_SECONDS_AFTER = 3.0
PLAN_LINES = 7
MODEL_CHARS = 40
MARKS = {"done": ("class:dim", "[x]"), "doing": ("class:doing", "[>]")}

ANSI_LINE = "ansi"  # the style of a line that has its styles in itself, as escape codes

StyledLine = tuple[str, str]


@dataclass(slots=True)
class StatusArea:
    """Everything below the finished lines. `lines` is a pure picture of it."""

    activities: dict[str, Activity] = field(default_factory=dict)
    hint: str = ""
    frames: str = FRAMES
    summary: str = ""

    def lines(self, width: int, height: int, now: float) -> list[StyledLine]:
        """(style, text) from top to bottom, at most `height` of them and none wider than the
        terminal.
        """
        drafts: list[StyledLine] = []
        below: list[StyledLine] = []
        for activity in self.activities.values():
            drafts += ((ANSI_LINE, line) for line in render_draft(activity.draft, width))
            below += self._activity_lines(activity, width, now)
        if self.summary:
            below.append(("class:dim", cut_to_width(self.summary, width)))
        if self.hint:
            below.append(("class:hint", cut_to_width(self.hint, width)))
        return [*drafts[-max(height - len(below), 1) :], *below][-height:]

    def _activity_lines(self, activity: Activity, width: int, now: float) -> list[StyledLine]:
        lines = render_plan(activity.plan, width)
        if activity.output:
            lines.append(
                ("class:dim", cut_to_width("  " + shorten_line(activity.output, width), width))
            )
        if activity.doing:
            frame = self.frames[int(now / FRAME_SECONDS) % len(self.frames)]
            seconds = now - activity.since
            waited = "" if seconds < SHOW_SECONDS_AFTER else f" · {int(seconds)} s"
            text = f"{frame} {activity.doing}{waited}"
            lines.append(("class:status", cut_to_width(text, width)))
        return lines


def render_plan(plan: PlanSteps, width: int) -> list[StyledLine]:
    """The plan as a small box, gone once all is done; of a long one what is at hand, and how much
    there is beside.
    """
    if all(state == "done" for _, state in plan):
        return []
    at = next((place for place, (_, state) in enumerate(plan) if state != "done"), 0)
    first = max(0, min(at - 1, len(plan) - PLAN_LINES))
    lines: list[StyledLine] = [("class:dim", f"… {first} done")] if first else []
    for text, state in plan[first : first + PLAN_LINES]:
        style, mark = MARKS.get(state, ("", "[ ]"))
        lines.append((style, f"{mark} {shorten_line(text, width)}"))
    if (rest := len(plan) - first - PLAN_LINES) > 0:
        lines.append(("class:dim", f"… {rest} more"))
    done = sum(state == "done" for _, state in plan)
    return _draw_box(f"plan: {done} of {len(plan)} done", lines, width)


def _draw_box(title: str, lines: list[StyledLine], width: int) -> list[StyledLine]:
    inner = max(min(max(cell_len(text) for _, text in (*lines, ("", title))), width - 4), 1)
    title = cut_to_width(title, inner)
    drawn: list[StyledLine] = [("class:dim", f"╭ {title} {'─' * (inner - cell_len(title))}╮")]
    for style, text in lines:
        shown = cut_to_width(text, inner)
        drawn.append((style, f"│ {shown}{' ' * (inner - cell_len(shown))} │"))
    return [*drawn, ("class:dim", f"╰{'─' * (inner + 2)}╯")]


def cut_to_width(text: str, width: int) -> str:
    """The text, cut to so many cells."""
    return text if cell_len(text) <= width else chop_cells(text, max(width - 1, 1))[0] + "…"


@dataclass(slots=True)
class UsageMeter:
    """The model, how full its context is, and what the session has cost. `ended`: of that, what
    runs have cost that are over; None where a price is unknown.
    """

    model: str = ""
    window: int = 0
    context: int = 0
    ended: float | None = 0.0
    _running: dict[str, list[float | None]] = field(default_factory=dict)

    def count(self, turn: str, event: LiveEvent, *, is_agent: bool) -> None:
        """An event of a run of the session, or of an agent that works for it."""
        usage = event.data.get("usage")
        if event.name == "cycle.start" and not is_agent:
            self.model = str(event.data.get("model") or self.model)
            self.window = int(str(event.data.get("window") or self.window))
        elif event.name == "model.response" and isinstance(usage, dict):
            self._running.setdefault(turn, []).append(usage.get("usd"))
            used = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
            self.context = self.context if is_agent else used or self.context
        elif event.name == COMPLETED:
            self._running.pop(turn, None)

    def render(self) -> str:
        """As one line; what is not known yet is left out."""
        context = f"context {_shorten_number(self.context)}" if self.context else ""
        if context and self.window:
            share = self.context * 100 // self.window
            context += f" of {_shorten_number(self.window)} tokens ({share} %)"
        costs = [self.ended, *(usd for spent in self._running.values() for usd in spent)]
        known = [usd for usd in costs if usd is not None]
        cost = format_cost(sum(known) if len(known) == len(costs) else None)
        model = shorten_line(escape_invisible(self.model), MODEL_CHARS)
        parts = model, context, "price unknown" if cost == "?" else cost
        return " · ".join(part for part in parts if part)


def _shorten_number(count: int) -> str:
    return str(count) if count < 1_000 else f"{count / 1_000:.1f}k".replace(".0k", "k")
