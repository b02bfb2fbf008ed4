"""The part of the screen that moves: the draft as it comes, the spinner with what it is doing, the hint."""

from dataclasses import dataclass, field

from rich.cells import cell_len, chop_cells

from channels.terminal_items import Activity, Plan
from channels.terminal_text import one_line, readable

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
FRAME_SECONDS = 0.1
SHOW_SECONDS_AFTER = 3.0
PLAN_LINES = 7
MARKS = {"done": ("class:dim", "[x]"), "doing": ("class:doing", "[>]")}

Line = tuple[str, str]


@dataclass(slots=True)
class Status:
    """Everything below the finished lines. `lines` is a pure picture of it."""

    activities: dict[str, Activity] = field(default_factory=dict)
    hint: str = ""
    question: str = ""
    frames: str = FRAMES

    @property
    def busy(self) -> bool:
        """Something moves."""
        return bool(self.activities)

    def lines(self, width: int, height: int, now: float) -> list[Line]:
        """(style, text) from top to bottom, at most `height` of them and none wider than the terminal."""
        drafts = [line for activity in self.activities.values() for line in wrapped(activity.draft, width)]
        moving = [self._moving(activity, width, now) for activity in self.activities.values()]
        below = [line for lines in moving for line in lines]
        below += [("class:hint", cut(self.hint, width))] if self.hint else []
        room = max(height - len(below), 1)
        above: list[Line] = [("", line) for line in drafts[-room:]]
        return (above + below)[-height:]

    def _moving(self, activity: Activity, width: int, now: float) -> list[Line]:
        lines = planned(activity.plan, width)
        if activity.output:
            lines.append(("class:dim", cut("  " + one_line(activity.output, width), width)))
        if activity.doing:
            lines.append(("class:status", cut(f"{self._frame(now)} {doing(activity, now)}", width)))
        return lines

    def _frame(self, now: float) -> str:
        return self.frames[int(now / FRAME_SECONDS) % len(self.frames)]


def doing(activity: Activity, now: float) -> str:
    """What is being done, and for how long once that is worth saying."""
    seconds = now - activity.since
    return activity.doing if seconds < SHOW_SECONDS_AFTER else f"{activity.doing} · {int(seconds)} s"


def planned(plan: Plan, width: int) -> list[Line]:
    """The plan as a small check list, gone once all is done; of a long one what is at hand, and how much there is beside."""
    if all(state == "done" for _, state in plan):
        return []
    at = next((place for place, (_, state) in enumerate(plan) if state != "done"), 0)
    first = max(0, min(at - 1, len(plan) - PLAN_LINES))
    lines: list[Line] = [("class:dim", f"    … {first} done")] if first else []
    for text, state in plan[first : first + PLAN_LINES]:
        style, mark = MARKS.get(state, ("", "[ ]"))
        lines.append((style, cut(f"  {mark} {one_line(text, width)}", width)))
    rest = len(plan) - first - PLAN_LINES
    return [*lines, ("class:dim", f"    … {rest} more")] if rest > 0 else lines


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines that fit, broken between words where it can be."""
    if not text.strip():
        return []
    return [piece for line in readable(text).expandtabs(4).rstrip().split("\n") for piece in _wrap(line, width)]


def _wrap(line: str, width: int) -> list[str]:
    pieces: list[str] = []
    while cell_len(line) > width:
        head = chop_cells(line, width)[0]
        at = head.rfind(" ")
        at = len(head) if at <= 0 else at
        pieces.append(line[:at])
        line = line[at:].lstrip(" ")
    return [*pieces, line]


def cut(text: str, width: int) -> str:
    """The text, cut to so many cells."""
    return text if cell_len(text) <= width else chop_cells(text, max(width - 1, 1))[0] + "…"
