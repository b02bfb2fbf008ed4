"""`aidaemon config` as a real process: bad config of ten kinds exits 2 and names file, key and what was expected."""

from pathlib import Path

import pytest

from tests.fakes.command_line import aidaemon

OPENAI = '[provider]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def refused(home: Path, text: str, **env: str) -> str:
    """What `config check` says on stderr of a config it must refuse; a fault never shows a traceback."""
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    done = aidaemon("config", "check", home=home, env=env)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert "Traceback" not in done.stderr
    assert str(home / "config.toml") in done.stderr
    return done.stderr


def test_bad_config_1_an_unset_variable_is_named(home: Path):
    told = refused(home, OPENAI + 'api_key = "${NO_SUCH_VARIABLE}"\n')
    assert "provider.api_key: the environment variable NO_SUCH_VARIABLE is not set" in told


def test_bad_config_2_max_iterations_above_the_cap(home: Path):
    told = refused(home, "[agent]\nmax_iterations = 30\n")
    assert (
        "agent.max_iterations: found 30, max_iterations must be from 1 to max_iterations_cap (25)"
        in told
    )


def test_bad_config_3_a_port_of_99999(home: Path):
    assert "http.port: found 99999, expected 65535 or less" in refused(
        home, "[http]\nport = 99999\n"
    )


def test_bad_config_4_an_unknown_key_names_the_nearest_one(home: Path):
    told = refused(home, "[provider]\ntimeot_s = 3\n")
    assert (
        "provider.timeot_s: is a key that this version" in told
        and "did you mean provider.timeout_s?" in told
    )


def test_bad_config_5_a_value_of_the_wrong_type(home: Path):
    told = refused(home, '[agent]\nmax_iterations = "ten"\n')
    assert 'agent.max_iterations: found "ten", expected a whole number' in told


def test_bad_config_6_broken_toml_is_told_by_line_and_column(home: Path):
    assert "line 2, column 20: is not TOML" in refused(
        home, '[provider]\nkind = "local"\x20\x20\x20\x20\x20kind'
    )


@pytest.mark.parametrize("sign", ["\u201c", "\u00a0"])
def test_a_sign_that_an_editor_put_in_is_named(home: Path, sign: str):
    told = refused(home, f"[provider]\nkind = {sign}local\n")
    assert "line 2, column " in told and f"(U+{ord(sign):04X})" in told


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_c01_a_file_is_read_as_any_editor_writes_it(home: Path, encoding: str, end: str):
    home.mkdir()
    text = OPENAI.replace("kind", "# für mich\nkind").replace("\n", end)
    (home / "config.toml").write_bytes(text.encode(encoding))
    done = aidaemon("config", "check", home=home)
    assert (done.returncode, done.stderr) == (0, ""), done


def test_bad_config_7_a_secret_that_is_not_there(home: Path):
    told = refused(home, OPENAI + 'api_key = "secret:openai"\n')
    assert "provider.api_key: there is no secret named 'openai'" in told


def test_bad_config_8_an_unknown_kind_of_provider_names_the_nearest_one(home: Path):
    told = refused(home, '[provider]\nkind = "opneai"\n')
    assert (
        "provider.kind: found \"opneai\", expected 'local', 'openai'" in told
        and 'did you mean "openai"?' in told
    )


def test_bad_config_9_a_negative_timeout(home: Path):
    assert "provider.timeout_s: found -5, expected more than 0" in refused(
        home, "[provider]\ntimeout_s = -5\n"
    )


def test_bad_config_10_secrets_that_others_can_read(home: Path):
    home.mkdir()
    (home / "config.toml").write_text("")
    (home / "secrets.toml").write_text('openai = "sk-hunter2"\n')
    (home / "secrets.toml").chmod(0o640)
    done = aidaemon("config", "check", home=home)
    assert done.returncode == 2
    assert f"chmod 600 {home / 'secrets.toml'}" in done.stderr and "hunter2" not in done.stderr


def test_bad_config_11_a_section_of_a_later_version_is_refused_as_not_known_to_this_one(home: Path):
    assert "page: is a section that this version" in refused(home, "[page]\nport = 1\n")


def test_b8_a_tool_in_tools_that_is_none_names_the_nearest_one(home: Path):
    """Those of a configured MCP server are known before it has told them."""
    server = '[mcp.git]\ncommand = "git-server"\n'
    for key, table in (
        ("approvals", '[tools.approvals]\nshel = "always"\n'),
        ("enabled", '[tools]\nenabled = ["shel", "git__*"]\n'),
        ("disabled", '[tools]\ndisabled = ["git__status", "shel"]\n'),
    ):
        told = refused(home, table + server)
        assert f"tools.{key}: there is no tool 'shel'; did you mean 'shell'?" in told
    told = refused(home, '[tools.approvals]\nshell = "sometimes"\n')
    assert (
        "tools.approvals.shell: found \"sometimes\", expected 'always', 'protected_paths' or 'never'"
        in told
    )


def test_b8_one_line_for_a_tool_makes_a_table_and_one_word_replaces_it(home: Path):
    for key, value, shown in (
        ("tools.approvals.shell", "never", 'default = "risk"\nshell = "never"'),
        ("tools.approvals", "always", 'default = "always"'),
    ):
        assert aidaemon("config", "set", key, value, home=home).returncode == 0
        assert aidaemon("config", "get", "tools.approvals", home=home).stdout.strip() == shown
    refusal = aidaemon("config", "set", "tools.approvals.shell", "never", home=home)
    assert refusal.returncode == 2 and "set tools.approvals itself" in refusal.stderr


def test_all_faults_are_told_at_once(home: Path):
    told = refused(
        home, '[http]\nport = -1\n[agent]\nmax_seconds = 0\n[budgte]\ndaily_usd = "${NOPE}"\n'
    )
    assert all(key in told for key in ("http.port", "agent.max_seconds", "budgte", "NOPE"))


def test_a_config_in_order_is_ok_and_so_is_none(home: Path):
    none = aidaemon("config", "check", home=home)
    assert (none.returncode, "the defaults hold" in none.stdout) == (0, True)
    home.mkdir()
    (home / "config.toml").write_text("[agent]\nmax_iterations = 3\n")
    done = aidaemon("config", "check", home=home)
    assert (done.returncode, done.stdout) == (0, f"{home / 'config.toml'}: ok\n")


def test_the_faults_of_agents_are_told_beside_those_of_the_config(home: Path):
    """B1"""
    (home / "agents").mkdir(parents=True)
    (home / "agents" / "coder.toml").write_text(
        '[identity]\nname = "codr"\n[iteration]\nmax_cycles = 0\n'
    )
    told = refused(home, "[http]\nport = -1\n")
    assert "http.port" in told and str(home / "agents" / "coder.toml") in told
    assert (
        'identity.name: found "codr", expected "coder"' in told
        and "iteration.max_cycles: found 0" in told
    )


def test_agents_in_order_are_named_and_warnings_go_to_stderr(home: Path):
    """B1, C3"""
    (home / "agents").mkdir(parents=True)
    path = home / "agents" / "coder.toml"
    path.write_text('[identity]\nname = "coder"\n[loop]\ncriterion = "regex"\nvalue = "("\n')
    done = aidaemon("config", "check", home=home)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, [f"{path}: ok"])
    assert "'(' is no regular expression" in done.stderr


@pytest.mark.parametrize("strategy", ["sequential", "parallel", "debate", "iterative"])
def test_b11_an_agent_that_loops_and_is_a_composite_is_refused(home: Path, strategy: str):
    """Each of the two alone is right."""
    loops = "[iteration]\nmax_cycles = 3\n"
    joins = f'[composite]\nstrategy = "{strategy}"\nagents = [{{ agent = "scout" }}, {{ agent = "scout" }}]\n'
    (home / "agents").mkdir(parents=True)
    (home / "config.toml").write_text(OPENAI)
    (home / "agents" / "scout.toml").write_text('[identity]\nname = "scout"\n')
    place = home / "agents" / "crew.toml"
    for tables, code in ((loops, 0), (joins, 0), (loops + joins, 2), (joins + loops, 2)):
        place.write_text(f'[identity]\nname = "crew"\n{tables}')
        done = aidaemon("config", "check", home=home)
        assert done.returncode == code, done.stderr
        told = f"{place}: iteration: iteration and [composite] exclude each other"
        assert (told in done.stderr) == (code == 2), done.stderr


def test_a_last_good_config_does_not_make_a_broken_one_right(home: Path):
    """A8: `config check` always exits 2 on a fault."""
    home.mkdir()
    (home / "config.toml.lastgood").write_text("")
    assert "max_seconds" in refused(home, "[agent]\nmax_seconds = -1\n")


def test_get_prints_values_in_force_and_hides_secrets(home: Path):
    home.mkdir()
    file = home / "elsewhere.toml"
    file.write_text(
        OPENAI
        + 'api_key = "${KEY}"\n[agent]\nmax_iterations = 4\n[provider.extra_headers]\nX-Team = "blue"\n'
    )

    def get(key: str) -> str:
        done = aidaemon(
            "config", "get", key, "--config", str(file), home=home, env={"KEY": "sk-hunter2"}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert get("agent.max_iterations") == "4\n"
    assert get("agent.while_busy") == "steer\n"
    assert get("provider.api_key") == "***\n"
    whole = get("provider")
    assert 'api_key = "***"' in whole and "hunter2" not in whole and "blue" not in whole


def test_get_of_an_unknown_key_exits_2_and_names_the_nearest(home: Path):
    done = aidaemon("config", "get", "agent.max_iteration", home=home)
    assert (done.returncode, "did you mean agent.max_iterations?" in done.stderr) == (2, True)


def test_home_and_config_are_taken_before_and_after_the_command(home: Path):
    before = aidaemon("--home", str(home), "config", "path")
    after = aidaemon("config", "path", "--home", str(home))
    elsewhere = aidaemon("config", "--config", "/etc/aidaemon.toml", "path", home=home)
    assert before.stdout == after.stdout == f"{home / 'config.toml'}\n"
    assert elsewhere.stdout == "/etc/aidaemon.toml\n"
