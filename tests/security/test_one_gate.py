"""Every call of every kind of turn goes through the one gate: the code itself is looked at (trust.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import daemon
from daemon.tools.builtin import BUILTIN_TOOLS

HOUSE = Path(daemon.__file__).parent
MADE_ONLY_IN = {
    "_TurnRun": {"tools/executor.py"},
    "AdmittedCall": {"tools/executor.py"},
    "ToolExecutor": {"app/tools.py"},
    "PolicyGate": {"app/tools.py"},
}


def calls_of(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield node


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(HOUSE.rglob("*.py")):
        yield str(path.relative_to(HOUSE)), path


def is_of_a_tool(function: ast.expr) -> bool:
    """`tool.run(...)`, `call.tool.run(...)`, and whatever else is called a tool."""
    if not (isinstance(function, ast.Attribute) and function.attr == "run"):
        return False
    owner = function.value
    name = (
        owner.attr
        if isinstance(owner, ast.Attribute)
        else owner.id
        if isinstance(owner, ast.Name)
        else ""
    )
    return "tool" in name.lower()


def test_F3_a_tool_is_run_in_one_place_only() -> None:
    found = {name for name, path in modules() for call in calls_of(path) if is_of_a_tool(call.func)}
    assert found == {"tools/executor.py"}


def test_F3_what_runs_tools_is_made_in_one_place_only() -> None:
    """Loops, sub-agents, composites, events and the chat all come to the same dispatcher, with the same gate. The HTTP door
    has a gate too, of another kind.
    """
    made: dict[str, set[str]] = {}
    for name, path in modules():
        for call in calls_of(path):
            if (
                isinstance(call.func, ast.Name)
                and call.func.id in MADE_ONLY_IN
                and not name.startswith("http/")
            ):
                made.setdefault(call.func.id, set()).add(name)
    assert made == MADE_ONLY_IN


def test_only_the_loop_asks_for_tools_to_be_run() -> None:
    found = {
        name
        for name, path in modules()
        for call in calls_of(path)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "run_pending"
    }
    assert found == {"agent/loop.py"}


def test_gateway_outbox_and_channels_import_no_tools() -> None:
    """Gateway and outbox pass words, answers and files on: of the tools' side they know rows, grants and the inbox only."""
    root = HOUSE.parent
    front = [*(HOUSE / "gateway").rglob("*.py"), *(HOUSE / "outbox").rglob("*.py")]
    inside = {
        name
        for path in front
        for name in imported(path)
        if name.startswith(("daemon.tools", "daemon.agent"))
    }
    assert inside <= {
        "daemon.tools.workspace.inbox_folder",
        "daemon.agent.system_questions",
    }
    outside = {name for path in (root / "channels").rglob("*.py") for name in imported(path)}
    assert not [name for name in outside if name.split(".")[0] in ("daemon", "memory")]
    assert len(front) > 5 and len(outside) > 20


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def test_no_setting_and_no_variable_leads_to_another_judge() -> None:
    """The negative control hands its judge to the composition root in the test; nothing else can."""
    named = {
        name
        for name, path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "judge"
    }
    assert named == {"app/tools.py"}
    config = [
        path for name, path in modules() if name.endswith("config.py") or name.startswith("config/")
    ]
    assert not [path for path in config if "judge" in path.read_text()]


def test_no_tools_name_stands_in_the_policy() -> None:
    names = ("gate", "judges", "provenance", "addresses", "orders", "tainted_call")
    rooms = [HOUSE / "tools" / "policy" / f"{name}.py" for name in names]
    strings = {
        node.value
        for path in rooms
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not strings & {definition.name for definition in BUILTIN_TOOLS}
    assert len(BUILTIN_TOOLS) > 5
