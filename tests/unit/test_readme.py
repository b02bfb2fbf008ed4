"""README says what is there: set-up commands that users and CI rely on, commands that exist, the promise."""

import re
from pathlib import Path

from daemon.agent.spec import parse_spec
from daemon.cli.parsing import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TALK = "python3 -m venv .venv && .venv/bin/pip install '.[local]' && .venv/bin/aidaemon chat"
WORK = "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/pytest"


def test_the_two_set_up_commands_stand_there_as_people_paste_them():
    assert {f"    {TALK}", f"    {WORK}"} <= set(README.splitlines())


def test_ci_runs_the_same_test_command():
    script = (ROOT / ".ci" / "run").read_text()
    assert "-m venv" in script and "install --quiet --disable-pip-version-check -e '.[dev]'" in script and "bin/pytest" in script


def test_every_command_is_named_and_no_other():
    assert set(re.findall(r"\baidaemon ([a-z]+)\b(?=[^\n]*(?:`|$))", README)) & set(COMMANDS) == set(COMMANDS)
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
