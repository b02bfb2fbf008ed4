"""README says what is there: set-up commands that users and CI rely on, commands that exist, the promise."""

import re
import tomllib
from pathlib import Path

import pytest

from daemon.agent.config import SubagentsConfig
from daemon.agent.spec.agent_spec import parse_spec
from daemon.app.config import load_config
from daemon.cli.parsing import COMMANDS
from tests.fakes.guide import GUIDE, README

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "daemon" / "docs" / "architecture.md").read_text()
AGENTS = (ROOT / "daemon" / "docs" / "agents.md").read_text()
TALK = "python3 -m venv .venv && .venv/bin/pip install '.[local]' && .venv/bin/aidaemon chat"
WORK = "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/pytest"


def test_the_two_set_up_commands_stand_there_as_people_paste_them():
    assert {f"    {TALK}", f"    {WORK}"} <= set(README.splitlines())


def test_it_is_read_in_ten_minutes_and_begins_with_what_it_is_good_for():
    assert len(README.split()) <= 2_000
    assert README.index("mails that matter") < README.index("## Set up")


def test_ci_runs_the_same_test_command():
    script = (ROOT / ".ci" / "run").read_text()
    assert (
        "-m venv" in script
        and "install --quiet --disable-pip-version-check -e '.[dev]'" in script
        and "bin/pytest" in script
    )


def test_every_command_is_named_and_no_other():
    assert set(re.findall(r"\baidaemon ([a-z]+)\b(?=[^\n]*(?:`|$))", GUIDE)) & set(COMMANDS) == set(
        COMMANDS
    )
    assert set(re.findall(r"`aidaemon ([a-z]+)", README)) <= set(COMMANDS)


def test_the_agents_it_shows_are_in_order():
    """B1, B11"""
    shown = "\n".join(line[4:] for line in AGENTS.splitlines() if line.startswith("    "))
    iterative, composite = shown.split("[composite]")
    coder = parse_spec(iterative, Path("coder.toml"))
    assert coder.iteration and len(coder.iteration.termination_conditions) == 3
    debate = parse_spec(f'[identity]\nname = "debate"\n[composite]{composite}', Path("debate.toml"))
    assert debate.composite and debate.composite.judge == "default"


def list_configs() -> list[str]:
    """Each TOML block of README and of the pages behind it."""
    indented = re.findall(r"^((?: {4}.*\n|\n(?= {4}))+)", GUIDE, re.MULTILINE)
    plain = (re.sub(r"^ *\$ .*|^ +", "", block, flags=re.MULTILINE) for block in indented)
    fenced = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    return [one for one in (*plain, *fenced) if one.lstrip().startswith("[")]


@pytest.mark.parametrize("config", list_configs())
def test_each_config_that_it_shows_loads(config: str, tmp_path: Path):
    if "[identity]" in config:
        assert parse_spec(config, Path("coder.toml")).iteration
        return
    secrets = dict.fromkeys(re.findall(r'"secret:(\w+)"', config), "a-secret")
    secrets |= {"slack_app": "xapp-1-a", "slack_bot": "xoxb-1-a"}
    path = tmp_path / "config.toml"
    path.write_text(config)
    assert load_config(path, env={"ANTHROPIC_API_KEY": "a-key"}, secrets=secrets)


def test_it_shows_configs():
    assert len(list_configs()) == 10


def test_the_promise_has_its_five_points():
    promise = README.split("## The promise")[1].split("\n## ")[0]
    assert re.findall(r"^(\d)\. ", promise, re.MULTILINE) == list("12345")
    assert "at most once" in promise and "at least once" in promise and "quarantined" in promise


def map_lines() -> list[str]:
    """The lines of the package map in the architecture page."""
    section = ARCHITECTURE.split("## Packages")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("    ") and line.strip()]


def the_map() -> list[set[str]]:
    """The layers that the map draws, top first; braced lines are one layer."""
    drawn: list[set[str]] = []
    for line in map_lines():
        package = re.match(r"    (?P<brace>[┌├└ ]) (?P<name>\w+) +\S", line)
        if package and package["brace"] in "├└":
            drawn[-1].add(package["name"])
        elif package:
            drawn.append({package["name"]})
    return drawn


def packages(folder: str) -> set[str]:
    """The packages and modules in it; testing.py is for tests of others and imported by nothing."""
    inside = (ROOT / folder).iterdir()
    names = {
        path.stem
        for path in inside
        if (path / "__init__.py").exists() or (path.suffix == ".py" and path.stem != "__init__")
    }
    return names - {"testing"}


def test_the_map_has_every_package_and_no_other():
    named = [name for layer in the_map() for name in layer]
    assert sorted(named) == sorted([*packages("daemon"), "channels", "memory"])


def test_the_map_draws_the_layers_that_the_code_is_held_to():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    held = [
        {name.strip(" ()").removeprefix("daemon.") for name in layer.split("|")}
        & packages("daemon")
        for layer in layers
    ]
    (leaves,) = (
        set(contract["modules"]) for contract in contracts if contract["type"] == "independence"
    )
    assert the_map() == [*held, {"addons"}, leaves]


def test_the_map_says_of_each_package_what_it_is_for_in_one_line():
    assert len(map_lines()) == len([name for layer in the_map() for name in layer])
    assert all(len(line) <= 130 and len(line.split()) > 3 for line in map_lines())


def test_every_document_and_file_that_a_document_links_or_names_is_there():
    pages = [
        ROOT / "README.md",
        *(ROOT / "daemon" / "docs").glob("*.md"),
        *(ROOT / ".github").glob("*.md"),
    ]
    missing: list[str] = []
    for page in pages:
        text = page.read_text()
        links = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
        missing += [f"{page.name}: {one}" for one in links if not (page.parent / one).exists()]
        named = re.findall(r"`((?:daemon|channels|memory|tests)/[\w/.]+\.(?:py|sql|md))`", text)
        missing += [f"{page.name}: {one}" for one in named if not (ROOT / one).exists()]
    assert not missing


def test_the_limits_it_names_are_those_that_hold():
    """A17"""
    said, limits = " ".join(GUIDE.split()), SubagentsConfig.model_validate({})
    assert (
        f"{limits.max_depth} deep, with {limits.max_iterations} iterations and {limits.timeout_s:g} seconds each"
        in said
    )
    assert f"{limits.max_response_chars:,} characters of it at most" in said
