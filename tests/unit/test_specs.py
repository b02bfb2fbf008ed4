"""HOME/agents: all agents there are, read again when edited, each wrong one told about and no other disturbed (B1, B11)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon import VERSION
from daemon.agent.config import AgentConfig
from daemon.agent.spec.agent_spec import default_spec
from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.spec.sections import LoopSection
from daemon.core.errors import ConfigError

DEFAULTS = AgentConfig()
Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write agents/NAME.toml; its text gets the identity when it has none."""

    def put(name: str, text: str = "") -> Path:
        (tmp_path / "agents").mkdir(exist_ok=True)
        path = tmp_path / "agents" / f"{name}.toml"
        path.write_text(text if "[identity]" in text else f'[identity]\nname = "{name}"\n{text}')
        return path

    return put


def specs_of(tmp_path: Path, defaults: AgentConfig = DEFAULTS) -> AgentRegistry:
    return AgentRegistry.open(tmp_path / "agents", defaults)


def composite(*agents: str) -> str:
    members = ", ".join(f'{{ agent = "{agent}" }}' for agent in agents)
    return f'[composite]\nstrategy = "sequential"\nagents = [{members}]\n'


def test_without_a_folder_there_is_the_default_agent(tmp_path: Path):
    """B1"""
    specs = specs_of(tmp_path)
    assert (specs.names(), specs.get("default"), specs.errors()) == (
        ["default"],
        default_spec(DEFAULTS),
        [],
    )


def test_a_file_named_default_takes_its_place_and_keeps_the_loop_of_the_config(
    tmp_path: Path, write: Write
):
    """B1, C7"""
    write("default", "[iteration]\nmax_cycles = 4\n")
    defaults = AgentConfig(loop=LoopSection(enabled=True))
    spec = specs_of(tmp_path, defaults).get("default")
    assert (spec.limits(defaults).max_iterations, spec.loop.enabled) == (4, True)
    path = write("default", "[loop]\nenabled = false\n")
    assert specs_of(tmp_path, defaults).get("default").loop.enabled is False
    path.unlink()


def test_an_unknown_agent_is_told_with_those_there_are_and_the_nearest(
    tmp_path: Path, write: Write
):
    write("coder", "")
    with pytest.raises(
        ConfigError,
        match=r"there is no agent 'codr'; there are: default, coder; did you mean 'coder'\?",
    ):
        specs_of(tmp_path).get("codr")


@pytest.mark.parametrize("name", ["../config", "a/b", "", ".hidden", "x" * 65])
def test_a_name_never_leads_out_of_the_folder(tmp_path: Path, write: Write, name: str):
    write("coder", "")
    (tmp_path / "config.toml").write_text('[identity]\nname = "config"\n')
    with pytest.raises(ConfigError, match="there is no agent"):
        specs_of(tmp_path).get(name)


def test_a_file_that_was_edited_is_picked_up_at_the_next_get(tmp_path: Path, write: Write):
    path = write("coder", "[iteration]\nmax_cycles = 3\n")
    specs = specs_of(tmp_path)
    before = specs.get("coder")
    assert specs.get("coder") is before
    write("coder", "[iteration]\nmax_cycles = 5\n")
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    assert [spec.limits(DEFAULTS).max_iterations for spec in (before, specs.get("coder"))] == [3, 5]
    path.unlink()
    with pytest.raises(ConfigError, match="there is no agent 'coder'"):
        specs.get("coder")


def test_a_wrong_file_does_not_disturb_the_others_and_is_good_again_once_mended(
    tmp_path: Path, write: Write
):
    write("coder", "")
    path = write("critic", "[iteration]\nmax_cycles = 0\n[tools]\napprovals = 3\n")
    specs = specs_of(tmp_path)
    assert specs.get("coder").identity.name == "coder"
    with pytest.raises(ConfigError, match=r"critic.toml: iteration.max_cycles: found 0"):
        specs.get("critic")
    assert [line.split(": ")[:2] for line in specs.errors()] == [
        [str(path), "iteration.max_cycles"],
        [str(path), "tools.approvals"],
    ]
    write("critic", "[iteration]\nmax_cycles = 1000\n")
    assert (specs.get("critic").identity.name, specs.errors()) == ("critic", [])


def test_a_file_that_is_not_text_is_a_fault_of_that_agent(tmp_path: Path, write: Write):
    write("coder", "").write_bytes(b"\xff\xfa")
    with pytest.raises(ConfigError, match="not UTF-8"):
        specs_of(tmp_path).get("coder")


def test_a_file_with_a_name_that_no_agent_can_have_is_a_fault(tmp_path: Path, write: Write):
    path = write("my agent", "")
    [line] = specs_of(tmp_path).errors()
    assert line.startswith(f"{path}: expected letters, digits") and line.endswith(
        "as the file's name before .toml"
    )


def test_a_file_nested_without_end_is_a_fault_and_no_crash(tmp_path: Path, write: Write):
    write("coder", f"x = {'[' * 5000}")
    [line] = specs_of(tmp_path).errors()
    assert "coder.toml: " in line


def test_the_agents_of_a_composite_must_exist(tmp_path: Path, write: Write):
    """B11"""
    write("team", composite("coder", "criticc"))
    write("coder", "[iteration]\nmax_cycles = 3\n")
    write("critic", "")
    with pytest.raises(
        ConfigError,
        match=r"team.toml: composite.agents.1.agent: there is no agent 'criticc'.*mean 'critic'\?",
    ):
        specs_of(tmp_path).get("team")
    write("team", composite("coder", "critic"))
    spec = specs_of(tmp_path).get("team")
    assert spec.composite and [part.agent for part in spec.composite.agents] == ["coder", "critic"]


def test_the_judge_of_a_debate_must_exist_too(tmp_path: Path, write: Write):
    """B11"""
    write(
        "team",
        '[composite]\nstrategy = "debate"\njudge = "nobody"\nagents = [{ agent = "default" }, { agent = "default" }]\n',
    )
    with pytest.raises(ConfigError, match=r"composite.judge: there is no agent 'nobody'"):
        specs_of(tmp_path).get("team")


def test_a_composite_may_hold_another_but_never_itself(tmp_path: Path, write: Write):
    """B11"""
    write("team", composite("pair", "pair"))
    write("pair", composite("default"))
    assert specs_of(tmp_path).get("team").identity.name == "team"
    write("pair", composite("team"))
    with pytest.raises(
        ConfigError,
        match=r"pair cannot be used: .*team would work for itself: team -> pair -> team",
    ):
        specs_of(tmp_path).get("team")


def test_a_composite_tells_what_is_wrong_with_a_member(tmp_path: Path, write: Write):
    """B11"""
    write("team", composite("coder"))
    write("coder", "[iteration]\nmax_cycles = 0\n")
    with pytest.raises(
        ConfigError, match=r"composite.agents.0.agent: .*coder.toml: iteration.max_cycles: found 0"
    ):
        specs_of(tmp_path).get("team")


def test_a_tool_that_there_is_not_is_warned_about_once_the_tools_are_known(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
):
    """B1, B2, D3: a misspelt critical tool would be no safety at all."""
    ends = '[[iteration.termination_conditions]]\nkind = "tool-result"\ntool = "shel"\nmatch = { exit_code = 0 }\n'
    tools = '[tools]\nenabled = ["*_file", "web_*"]\ncritical = ["shell", "shll"]\n'
    write("coder", f"[iteration]\nmax_cycles = 3\n{ends}{tools}")
    specs = specs_of(tmp_path)
    assert specs.warnings_of("coder") == []
    specs.set_tools(lambda: ("shell", "read_file"))
    assert [line.split(": ")[0] for line in specs.warnings_of("coder")] == [
        "tools.enabled.1",
        "tools.critical.1",
        "iteration.termination_conditions.0.tool",
    ]
    assert (
        "coder.toml: tools.critical.1: there is no tool 'shll'; did you mean 'shell'?"
        in caplog.text
    )


def test_what_is_wrong_is_logged_when_the_daemon_opens_the_folder(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
):
    """C3: so is what is accepted but will not do what was meant."""
    write("coder", '[loop]\ncriterion = "regex"\nvalue = "("\n')
    write("critic", "[itration]\nmax_cycles = 1\n")
    specs = specs_of(tmp_path)
    specs.set_tools(lambda: ())
    assert "coder.toml: loop.value: '(' is no regular expression" in caplog.text
    assert (
        f"critic.toml: itration: is a section that this version ({VERSION}) does not know"
        in caplog.text
    )
    assert len(specs.warnings()) == 1


MEMBERS = '{ agent = "default" },' * 1000
HOSTILE = {
    "a number of 5000 digits": f"[iteration]\nmax_cycles = {'9' * 5000}\n",
    "a pattern nested too deeply": f'[[verify]]\nkind = "regex"\nvalue = "{"(?:" * 20_000}a{")" * 20_000}"\n',
    "a pattern that repeats too often": '[[verify]]\nkind = "regex"\nvalue = "a{99999999999999999999}"\n',
    "a schema nested too deeply": f"[output]\nschema = '{'[' * 200_000}'\n",
    "a schema with a list for a name": '[output]\nschema = { type = [["object"]] }\n',
    "a schema with endless numbers": "[output]\nschema = '{\"minimum\": Infinity}'\n",
    "a thousand members": f'[composite]\nstrategy = "parallel"\nagents = [{MEMBERS}]\n',
    "a key of signs that steer a terminal": '"\\u001b[31m\\n" = 1\n',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_file_keeps_the_daemon_from_starting_and_each_is_told_about_in_a_line(
    tmp_path: Path, write: Write, text: str
):
    """B1: file, key, what was expected; the others can be used."""
    write("good", "")
    path = write("wrong", text)
    specs = specs_of(tmp_path)
    [line] = specs.errors()
    assert line.startswith(f"{path}: ") and line.isprintable() and len(line) < 3000
    assert specs.get("good").identity.name == "good"


@pytest.mark.parametrize("value", ["a{99999999999999999999}", f"{'(?:' * 20_000}a{')' * 20_000}"])
def test_a_loops_pattern_of_any_kind_only_means_keep_going(
    tmp_path: Path, write: Write, value: str
):
    """C3"""
    write("coder", f'[loop]\ncriterion = "regex"\nvalue = "{value}"\n')
    [warning] = specs_of(tmp_path).warnings_of("coder")
    assert "is no regular expression" in warning and len(warning) < 500


def test_agents_that_set_the_same_ones_to_work_again_and_again_are_looked_at_once(
    tmp_path: Path, write: Write
):
    """B11: else this took for ever, before the daemon had begun."""
    for number in range(18):
        write(f"a{number}", composite(f"a{number + 1}", f"a{number + 1}"))
    write("a18", "")
    assert specs_of(tmp_path).errors() == []
    for number in range(18, 30):
        write(f"a{number}", composite(f"a{number + 1}", f"a{number + 1}"))
    write("a30", "")
    with pytest.raises(ConfigError, match="no more than 20 agents below one another"):
        specs_of(tmp_path).get("a0")


def test_what_is_no_file_is_no_agent(tmp_path: Path, write: Write):
    """B1: to open a pipe would take for ever."""
    write("good", "")
    os.mkfifo(tmp_path / "agents" / "pipe.toml")
    (tmp_path / "agents" / "zero.toml").symlink_to("/dev/zero")
    specs = specs_of(tmp_path)
    assert specs.names() == ["default", "good"]
    for name in ("pipe", "zero", "../good", "a/b", "", "\0", "\udcff", "n" * 100_000):
        with pytest.raises(
            ConfigError, match=r"there is no agent .*; there are: default, good"
        ) as caught:
            specs.get(name)
        assert len(str(caught.value)) < 1000
