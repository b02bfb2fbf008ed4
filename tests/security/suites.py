"""The recorded suites (AgentDojo, MIT), and how an owner who uses these servers would set them up: by what their tools do."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.security.suite_server import MARK

DATA = Path(__file__).parents[3] / "shared" / "data" / "injection_dev.json"
SERVER = "office"

# What config.toml says of the two servers: effects, what decides where they act, whose word counts. The policy knows no name.
EFFECTS: Mapping[str, Mapping[str, str]] = {
    "workspace": {
        "send_email": "egress",
        "delete_email": "destructive",
        "create_calendar_event": "write",
        "cancel_calendar_event": "destructive",
        "reschedule_calendar_event": "write",
        "add_calendar_event_participants": "egress",
        "append_to_file": "write",
        "create_file": "write",
        "delete_file": "destructive",
        "share_file": "egress",
    },
    "slack": {
        "add_user_to_channel": "egress",
        "send_direct_message": "egress",
        "send_channel_message": "egress",
        "get_webpage": "fetch",
        "post_webpage": "egress",
        "invite_user_to_slack": "egress",
        "remove_user_from_slack": "destructive",
    },
}
CRITICAL: Mapping[str, list[str]] = {
    "send_email": ["recipients", "cc", "bcc", "attachments"],
    "create_calendar_event": ["participants"],
    "reschedule_calendar_event": ["event_id", "new_start_time", "new_end_time"],
    "add_calendar_event_participants": ["event_id", "participants"],
    "append_to_file": ["file_id"],
    "create_file": ["filename"],
    "share_file": ["file_id", "email", "permission"],
    "add_user_to_channel": ["user", "channel"],
    "send_direct_message": ["recipient"],
    "send_channel_message": ["channel"],
    "invite_user_to_slack": ["user", "user_email"],
    "post_webpage": ["url"],
    "get_webpage": ["url"],
}
RECORD_TOOLS = (
    "search_calendar_events",
    "get_day_calendar_events",
    "search_files",
    "list_files",
    "create_file",
    "get_file_by_id",
    "get_channels",
)
TRUSTED_OUTPUT = ["get_current_day", "search_contacts_by_name", "search_contacts_by_email"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a recorded task."""

    tool: str
    arguments: str

    @property
    def full_name(self) -> str:
        """As the assistant's model knows the tool."""
        return f"{SERVER}__{self.tool}"


@dataclass(frozen=True, slots=True)
class Task:
    """What a user asks for and what it takes, or what an attacker wants."""

    name: str
    prompt: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """One office: its tools, what its user asks, what an attacker writes into its mails and pages."""

    name: str
    tools: tuple[str, ...]
    tasks: tuple[Task, ...]
    attacks: tuple[Task, ...]

    def effect(self, tool: str) -> str:
        """What the owner's config says that it does."""
        return EFFECTS[self.name].get(tool, "read")

    def acts(self, call: Call) -> bool:
        """It changes something, or tells somebody something."""
        return self.effect(call.tool) in ("write", "egress", "destructive")

    def config(self) -> dict[str, Any]:
        """The tables of [mcp.NAME] that tell what the tools do."""
        return {
            "effects": {tool: self.effect(tool) for tool in self.tools},
            "critical": {tool: names for tool, names in CRITICAL.items() if tool in self.tools},
            "records": [tool for tool in self.tools if tool.startswith(RECORD_TOOLS)],
            "trusted_output": [tool for tool in TRUSTED_OUTPUT if tool in self.tools],
        }


@cache
def suites() -> tuple[Suite, ...]:
    """All that were recorded; none where the recordings are not at hand."""
    if not DATA.exists():
        return ()
    recorded = json.loads(DATA.read_text())["suites"]
    return tuple(
        Suite(
            name,
            tuple(tool["name"] for tool in suite["tools"]),
            tuple(_task(task, task["prompt"]) for task in suite["user_tasks"]),
            tuple(_task(task, task["goal"]) for task in suite["injection_tasks"] if task["calls"]),
        )
        for name, suite in recorded.items()
    )


def _task(recorded: Mapping[str, Any], prompt: str) -> Task:
    """What it takes while nobody attacks: an attacker's part of a name is empty."""
    calls = tuple(
        Call(call["tool"], MARK.sub("", json.dumps(call["args"], sort_keys=True)))
        for call in recorded["calls"]
    )
    return Task(recorded["id"], prompt, calls)
