"""A plan: actions that a person approves once; each is a standing permission then (trust.md)."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from daemon.core.trust import Effect
from daemon.core.turn import PLAN_TOOL
from daemon.tools.base import Arguments, Tool, ToolError
from daemon.tools.policy.grants import grantable_paths, pattern_error
from daemon.tools.policy.rules import EFFECT_TEXT

MAX_ACTIONS = 10


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
