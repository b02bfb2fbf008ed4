"""When a call is asked about, as the config or an agent's file says: for all tools in one word, or
in a table with a line for each tool (B8).
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from daemon.core.trust import ToolApproval, ToolApprovals
from daemon.core.turn_spec import TurnSpec


def inherit_approvals(spec: TurnSpec, parent: TurnSpec) -> ToolApprovals:
    """Of a sub-agent: what either author wants to be asked about is asked."""
    both = (*parent.tool_approvals, *spec.tool_approvals)
    asked = tuple(dict.fromkeys(line for line in both if line[1] == "always"))
    if parent.approvals != "always":
        return ToolApprovals(spec.approvals, (*asked, *spec.tool_approvals))
    relaxed = tuple(
        line
        for line in parent.tool_approvals
        if spec.approvals != "always" or line in spec.tool_approvals
    )
    return ToolApprovals("always", (*asked, *relaxed))


class ApprovalLines(BaseModel):
    """`approvals = "always"`, or a table of it: its `default`, and a line for each tool."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, ToolApproval]  # pyrefly: ignore[bad-override] - as documented

    @model_validator(mode="before")
    @classmethod
    def _read_word(cls, found: Any) -> Any:
        return {"default": found} if isinstance(found, str) else found

    @property
    def lines(self) -> tuple[tuple[str, ToolApproval], ...]:
        """(name or pattern of a tool, when it is asked about)."""
        return tuple(self.__pydantic_extra__.items())


class AgentApprovals(ApprovalLines):
    """In an agent's file; without a default it is the config's."""

    default: Literal["", "risk", "always"] = ""


class ConfigApprovals(ApprovalLines):
    """In the config."""

    default: Literal["risk", "always"] = "risk"

    def build(self) -> ToolApprovals:
        """As the gate asks it."""
        return ToolApprovals(self.default, self.lines)
