"""README says what is there: set-up commands that users and CI rely on, commands that exist, the promise."""

import re
import tomllib
from pathlib import Path

from daemon.agent.config import SubagentsConfig
from daemon.agent.spec.agent_spec import parse_spec
from daemon.cli.parsing import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TALK = "python3 -m venv .venv && .venv/bin/pip install '.[local]' && .venv/bin/aidaemon chat"
WORK = "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/pytest"


def test_the_two_set_up_commands_stand_there_as_people_paste_them():
    assert {f"    {TALK}", f"    {WORK}"} <= set(README.splitlines())


def test_ci_runs_the_same_test_command():
    script = (ROOT / ".ci" / "run").read_text()
    assert (
        "-m venv" in script
        and "install --quiet --disable-pip-version-check -e '.[dev]'" in script
        and "bin/pytest" in script
    )


def test_every_command_is_named_and_no_other():
    assert set(re.findall(r"\baidaemon ([a-z]+)\b(?=[^\n]*(?:`|$))", README)) & set(
        COMMANDS
    ) == set(COMMANDS)
    assert set(re.findall(r"`aidaemon ([a-z]+)", README)) <= set(COMMANDS)


def test_the_agents_it_shows_are_in_order():
    """B1, B11"""
    section = README.split("## Agents")[1].split("\n## ")[0]
    shown = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    iterative, composite = shown.split("[composite]")
    coder = parse_spec(iterative, Path("coder.toml"))
    assert coder.iteration and len(coder.iteration.termination_conditions) == 3
    debate = parse_spec(f'[identity]\nname = "debate"\n[composite]{composite}', Path("debate.toml"))
    assert debate.composite and debate.composite.judge == "default"


def test_the_promise_has_its_five_points():
    promise = README.split("## The promise")[1].split("\n## ")[0]
    assert re.findall(r"^(\d)\. ", promise, re.MULTILINE) == list("12345")
    assert "at most once" in promise and "at least once" in promise and "quarantined" in promise


def the_map() -> list[set[str]]:
    """The layers that the map draws, top first; braced lines are one layer, an empty line ends the layers of the daemon."""
    drawn: list[set[str]] = []
    for line in README.split("## Map")[1].split("\n## ")[0].splitlines():
        room = re.match(r"    (?P<brace>[┌├└ ]) (?P<name>\w+) +\S", line)
        if room and room["brace"] in "├└":
            drawn[-1].add(room["name"])
        elif room:
            drawn.append({room["name"]})
    return drawn


def rooms(package: str) -> set[str]:
    """The packages and modules in it."""
    inside = (ROOT / package).iterdir()
    return {
        path.stem
        for path in inside
        if (path / "__init__.py").exists() or (path.suffix == ".py" and path.stem != "__init__")
    }


def test_the_map_has_every_room_of_the_house_and_no_other():
    named = [name for layer in the_map() for name in layer]
    assert sorted(named) == sorted([*rooms("daemon"), "channels", "memory"])


def test_the_map_draws_the_layers_that_the_code_is_held_to():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    held = [
        {name.strip(" ()").removeprefix("daemon.") for name in layer.split("|")} & rooms("daemon")
        for layer in layers
    ]
    (leaves,) = (
        set(contract["modules"]) for contract in contracts if contract["type"] == "independence"
    )
    assert the_map() == [*held, {"plugins"}, leaves]


def test_the_map_says_of_each_room_what_it_is_for_in_one_line():
    lines = [
        line
        for line in README.split("## Map")[1].split("\n## ")[0].splitlines()
        if line.startswith("    ")
    ]
    assert len([line for line in lines if line.strip()]) == len(
        [name for layer in the_map() for name in layer]
    )
    assert all(len(line) <= 130 and len(line.split()) > 3 for line in lines if line.strip("┌├└ "))


def test_the_limits_it_names_are_those_that_hold():
    """A17"""
    said, limits = " ".join(README.split()), SubagentsConfig.model_validate({})
    assert (
        f"{limits.max_depth} deep, with {limits.max_iterations} iterations and {limits.timeout_s:g} seconds each"
        in said
    )
    assert f"{limits.max_response_chars:,} characters of it at most" in said
