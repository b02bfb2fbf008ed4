"""A plan: actions that a person approves once; each is a standing permission then (trust.md)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from daemon.core.rows import GrantRow
from daemon.core.trust import Effect
from daemon.core.turn import PLAN_TOOL
from daemon.tools.base import Arguments, Tool, ToolError
from daemon.tools.calls import args_hash, canonical_json
from daemon.tools.policy.grants import grantable_paths, pattern_error
from daemon.tools.policy.rules import EFFECT_TEXT

MAX_ACTIONS = 10
PLAN_TERM = timedelta(hours=1)


class PlannedAction(BaseModel):
    """Exactly these `arguments`, with any of `values` as `vary`; or any in `folder`."""

    model_config = ConfigDict(extra="forbid")

    tool: str
    arguments: dict[str, Any] = {}
    vary: str = ""
    values: list[str | int] = Field([], max_length=20)
    folder: str = ""
    times: int = Field(1, ge=1, le=20)

    @property
    def pattern(self) -> str:
        return self.folder and f"{self.folder.strip('/')}/**"

    def list_calls(self, tool: Tool) -> list[dict[str, Any]]:
        """The arguments of each; for a folder, of one about that."""
        if self.folder:
            return [dict.fromkeys(tool.meta.paths, self.folder)]
        return [{**self.arguments, self.vary: one} for one in self.values] or [self.arguments]


def read_actions(arguments: Arguments) -> list[PlannedAction]:
    """Of a call that has been checked."""
    return [*map(PlannedAction.model_validate, arguments["actions"])]  # type: ignore[call-overload]


def find_fault(action: PlannedAction, tool: Tool | None) -> str:
    """Why the action cannot be in a plan, or ""."""
    if tool is None or tool.name == PLAN_TOOL:
        return "there is no such tool"
    is_mixed = action.folder and (action.vary or action.arguments)
    if is_mixed or bool(action.vary) != bool(action.values):
        return "give arguments (also vary and values), or a folder alone"
    meta = tool.meta
    for arguments in action.list_calls(tool):
        if action.folder:
            if meta.effect is Effect.DESTRUCTIVE or meta.classify or {*"*?["} & {*action.folder}:
                return "this tool needs exact arguments, not a folder"
            return pattern_error(action.pattern, grantable_paths(meta, arguments))
        try:
            if tool.check:
                tool.check(arguments)
        except ToolError as error:
            return str(error)
        known, needed = (tool.spec.parameters.get(key, ()) for key in ("properties", "required"))
        if odd := {*map(str, needed)} - {*arguments} | {*arguments} - {*known}:  # type: ignore[call-overload]
            return f"missing or unknown: {', '.join(sorted(odd))}"
        if action.vary and tool.effect_of(arguments) is Effect.DESTRUCTIVE:
            return f"it {EFFECT_TEXT[Effect.DESTRUCTIVE]}: give exact arguments only"
    return ""


def describe_action(action: PlannedAction, tool: Tool) -> str:
    """As it will run, for a person."""
    calls, what = action.list_calls(tool), canonical_json(action.arguments)
    if action.vary:
        what += f", {action.vary}: {' or '.join(map(repr, action.values))}"
    elif action.folder:
        what = f"anything in {action.pattern.removesuffix('**')}"
    often = "once" if action.times == 1 else f"{action.times} times"
    does = " or ".join({EFFECT_TEXT[tool.effect_of(one)]: "" for one in calls})
    more = tool.preview(calls[0]) if tool.preview and not action.folder else ""
    return f"{tool.name} {what} ({often}; it {does})\n{more}".strip()


def make_grant(action: PlannedAction, tool: Tool, terms: GrantRow) -> GrantRow:
    """What a yes allows, on these terms."""
    hashes = [args_hash(tool.name, one) for one in action.list_calls(tool)]
    return replace(
        terms,
        tool=tool.name,
        args_hash="" if action.folder else " ".join(hashes),
        arguments=canonical_json(action.arguments),
        uses_left=action.times,
        paths=action.pattern,
    )
