"""One add-on of each kind, installed into a venv beside aidaemon and used through a real config."""

import asyncio
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.fakes.command_line import ROOT, aidaemon
from tests.fakes.daemon_process import TOKEN, NotReady, running_daemon, scripted

EXAMPLES = ROOT / "tests" / "examples"
CONFIG = """
[provider]
kind = "acme"
greeting = "Hello:"
{provider}
[http]
port = 0
token = "{token}"

[channels.folder]
place = "{place}"
owner_ids = ["ann"]
{channel}
"""


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel of a package of modules without a build tool, which this machine may not have."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    name = f"{project['name'].replace('-', '_')}-{project['version']}"
    groups = project["entry-points"].items()
    points = "\n".join(
        f"[{group}]\n" + "\n".join(f"{name} = {target}" for name, target in entries.items())
        for group, entries in groups
    )
    files = {file.name: file.read_text() for file in source.glob("*.py")} | {
        f"{name}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}.dist-info/entry_points.txt": points + "\n",
    }
    record = f"{name}.dist-info/RECORD"
    wheel = folder / f"{name}-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(record, "".join(f"{file},,\n" for file in (*files, record)))
    return wheel


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The python of a venv that has what this one has, and the add-ons."""
    folder = tmp_path_factory.mktemp("addons")
    venv.create(folder / "venv", symlinks=True)
    mine, own = (
        sysconfig.get_path("purelib", vars=base) for base in (None, {"base": str(folder / "venv")})
    )
    Path(own, "beside.pth").write_text(f"import site; site.addsitedir({mine!r})\n")
    python = str(folder / "venv" / "bin" / "python")
    wheels = [build_wheel(source, folder) for source in sorted(EXAMPLES.iterdir())]
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--no-index", *map(str, wheels)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return python


def write_config(place: Path, provider: str = "", channel: str = "") -> str:
    return CONFIG.format(place=place, token=TOKEN, provider=provider, channel=channel)


async def answer_to(place: Path, text: str) -> str:
    """Write a message, wait for the answer."""
    known = set((place / "outbox").iterdir())
    (place / "message").write_text(text)
    (place / "message").rename(place / "inbox" / f"{len(known)}.txt")
    async with asyncio.timeout(20):
        while not (new := set((place / "outbox").iterdir()) - known):
            await asyncio.sleep(0.05)
    return new.pop().read_text()


async def test_a_channel_a_provider_and_a_tool_of_add_ons_answer_a_message(
    python: str, tmp_path: Path
) -> None:
    for name in ("inbox", "outbox", "home"):
        (tmp_path / name).mkdir(mode=0o700)
    config = write_config(tmp_path)
    async with running_daemon(tmp_path / "home", config, python=python) as daemon:
        assert await answer_to(tmp_path, "good morning") == "Hello: good morning"
        assert await answer_to(tmp_path, "double 21") == "Hello: 42"
        runs = await daemon.listed("/v1/runs")
        assert [one["usd"] for one in runs] == [0.002, 0.001], "what the provider says it cost"
        assert await daemon.terminate() == 0


@pytest.mark.parametrize(
    ("provider", "channel", "fault"),
    [
        ("gretting = 1", "", "provider.gretting: is a key that this version"),
        ("shout = 3", "", "provider.shout: found 3, expected true or false"),
        ("", "colour = 'red'", "channels.folder.colour: is a key that this version"),
        ("", "[channels.nowhere]", "channels.nowhere: is a section that this version"),
    ],
)
def test_the_keys_of_an_add_on_are_checked_by_its_own_config(
    python: str, tmp_path: Path, provider: str, channel: str, fault: str
) -> None:
    (tmp_path / "config.toml").write_text(write_config(tmp_path, provider, channel))
    done = aidaemon("config", "check", home=tmp_path, python=python)
    assert done.returncode == 2
    assert fault in done.stderr


CLASH = """from daemon.core.trust import Effect
from daemon.tools.signature import tool


@tool(effect=Effect.READ)
async def {name}(path: str) -> str:
    \"\"\"Another way to do it.\"\"\"
    return path
"""
PROJECT = """[project]
name = "aidaemon-{name}"
version = "1.0"
[project.entry-points."aidaemon.tools"]
{name} = "{name}_tools:{tool}"
"""


def install_tool(folder: Path, name: str, tool: str) -> dict[str, str]:
    """The environment of a process that has an add-on of this name with this tool."""
    source = folder / f"{name}_source"
    source.mkdir()
    (source / f"{name}_tools.py").write_text(CLASH.format(name=tool))
    (source / "pyproject.toml").write_text(PROJECT.format(name=name, tool=tool))
    with ZipFile(build_wheel(source, folder)) as wheel:
        wheel.extractall(folder / "site")
    return {"PYTHONPATH": os.pathsep.join((str(ROOT), str(folder / "site")))}


@pytest.mark.parametrize("tool", ["read_file", "shell", "schedule"])
async def test_an_add_on_with_a_tool_of_ours_is_named_by_the_start_and_by_config_check(
    tmp_path: Path, tool: str
) -> None:
    env, home = install_tool(tmp_path, "acme", tool), tmp_path / "home"
    fault = f"tools: the add-on 'acme' has a tool '{tool}', and so has the daemon itself"
    with pytest.raises(NotReady, match=fault):
        async with running_daemon(home, scripted("http://127.0.0.1:9/v1"), env):
            pass
    done = aidaemon("config", "check", home=home, env=env)
    assert (done.returncode, fault in done.stderr) == (2, True), done


def test_two_add_ons_with_one_tool_are_both_named(tmp_path: Path) -> None:
    install_tool(tmp_path, "acme", "double")
    env = install_tool(tmp_path, "other", "double")
    done = aidaemon("config", "check", home=tmp_path, env=env)
    assert done.returncode == 2
    assert "has a tool 'double', and so has the add-on '" in done.stderr
    assert "'acme'" in done.stderr and "'other'" in done.stderr


def test_without_the_package_the_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(write_config(tmp_path))
    done = aidaemon("config", "check", home=tmp_path)
    assert done.returncode == 2
    assert 'provider.kind: found "acme", expected' in done.stderr
