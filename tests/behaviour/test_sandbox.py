"""The fence around commands and servers, in each kind there is: real processes, a real bubblewrap, the real landlock (E5)."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.tools.shell import landlock
from daemon.tools.shell.process import ProcessResult, run_process
from daemon.tools.shell.sandbox import SEARCH_PATH, Sandbox, SandboxKind, ServerPlaces
from daemon.tools.workspace.command_effects import CommandEffects
from tests.behaviour.test_files_labels import context
from tests.behaviour.test_shell import gone, processes_with
from tests.fakes.commands import Commands
from tests.fakes.files import Desk
from tests.fakes.mcp import until

FENCES: tuple[SandboxKind, ...] = ("bubblewrap", "landlock")
DEADLINE = 20
ROOT = Path(__file__).parents[2]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "workspace"
    place.mkdir()
    return place


async def ran(sandbox: Sandbox, command: str, network: bool = False) -> ProcessResult:
    return await run_process(
        sandbox.wrap(["/bin/bash", "-c", command], network=network), cwd=sandbox.workspace, env=sandbox.env, timeout_s=DEADLINE,
        max_chars=4000, on_output=lambda text: None,
    )  # fmt: skip


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """A TCP server on loopback that says hello; its port."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def hearing() -> socket.socket:
    """A UDP socket on loopback."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.setblocking(False)
    return made


async def test_this_machine_can_do_both(workspace: Path) -> None:
    assert landlock.get_abi() >= landlock.LEAST_ABI
    for kind in FENCES:
        assert (await ran(Sandbox(workspace, kind), "echo x > made; cat made")).output == "x\n"
        (workspace / "made").unlink()


@pytest.mark.parametrize("kind", FENCES)
@pytest.mark.parametrize(
    "command",
    [
        "echo x > /usr/evil", "echo x > /etc/passwd", "cat ../secret.txt", "cat /etc/shadow", "ls /root", "ln ../secret.txt hard",
        "ln -s ../secret.txt link; cat link", "mv ../secret.txt .", "rm ../secret.txt", "cat /proc/$DAEMON/environ",
        "kill -0 $DAEMON", "ls /proc/$DAEMON/fd", "mount -t tmpfs none /usr", "chroot /", "cat /dev/mem", "ls /dev/disk/*",
        "head -c 1 /dev/sda /dev/vda", "exec 3<>/dev/tcp/127.0.0.1/9", "touch /var/tmp/x", "cat ~root/.bash_history",
    ],
)  # fmt: skip
async def test_E5_what_reaches_outside_fails(
    workspace: Path, kind: SandboxKind, command: str
) -> None:
    result = await tried(workspace, kind, command)
    assert result.exit_code != 0, result.output


@pytest.mark.parametrize("kind", FENCES)
@pytest.mark.parametrize(
    "command",
    [
        "echo x > ../beside",
        "ls -la ..",
        "echo > ../secret.txt",
        "mkdir ../new",
        "echo x > /tmp/new",
        "find / -name secret.txt",
    ],
)
async def test_E5_what_seems_to_reach_outside_changes_nothing_there(
    workspace: Path, kind: SandboxKind, command: str
) -> None:
    await tried(workspace, kind, command)


async def tried(workspace: Path, kind: SandboxKind, command: str) -> ProcessResult:
    """Run it beside a secret, which must stay where it is and as it is, alone and unseen."""
    secret = workspace.parent / "secret.txt"
    secret.write_text("hush")
    before = sorted(workspace.parent.iterdir())
    result = await ran(Sandbox(workspace, kind), f"DAEMON={os.getpid()}; set -e; {command}")
    assert "hush" not in result.output
    assert (secret.read_text(), sorted(workspace.parent.iterdir())) == ("hush", before)
    assert not Path("/tmp/new").exists()
    return result


@pytest.mark.parametrize("kind", FENCES)
async def test_E5_there_is_no_network_but_where_it_was_asked_for(
    workspace: Path, kind: SandboxKind
) -> None:
    sandbox = Sandbox(workspace, kind)
    async with listening() as port:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && head -1 <&3"
        assert (await ran(sandbox, command)).exit_code != 0
        assert (await ran(sandbox, command, network=True)).output == "hello\n"


@pytest.mark.parametrize("kind", FENCES)
async def test_E5_no_datagram_leaves_either_so_no_name_can_carry_anything_out(
    workspace: Path, kind: SandboxKind
) -> None:
    with hearing() as ear:
        command = f"echo secret > /dev/udp/127.0.0.1/{ear.getsockname()[1]}"
        await ran(Sandbox(workspace, kind), command)
        with pytest.raises(BlockingIOError):
            ear.recv(10)
        await ran(Sandbox(workspace, kind), command, network=True)
        assert ear.recv(10) == b"secret\n"


@pytest.mark.parametrize("kind", FENCES)
async def test_E5_services_of_this_machine_cannot_be_asked_to_act(
    workspace: Path, kind: SandboxKind
) -> None:
    """A local socket, as that of a container service, is outside the workspace or closed altogether."""
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(workspace.parent / "service"))
        service.listen()
        for network in (False, True):
            result = await ran(
                Sandbox(workspace, kind), f'/usr/bin/python3 -c "{code}" ../service', network
            )
            assert result.exit_code != 0
            assert "Error" in result.output


@pytest.mark.parametrize("kind", FENCES)
async def test_E5_when_memory_runs_out_a_command_goes_before_the_daemon(
    workspace: Path, kind: SandboxKind
) -> None:
    waiting = "touch there; while [ ! -e seen ]; do sleep 0.02; done"
    running = asyncio.create_task(ran(Sandbox(workspace, kind), waiting))
    await until((workspace / "there").exists)
    scores = [
        (Path("/proc") / str(pid) / "oom_score_adj").read_text().strip()
        for pid in processes_with(waiting)
    ]
    (workspace / "seen").touch()
    await running
    assert "1000" in scores


@pytest.mark.parametrize("kind", FENCES)
@pytest.mark.parametrize("ends", ["by itself", "too late"])
async def test_L_nothing_outlives_a_command_not_even_in_a_session_of_its_own(
    workspace: Path, kind: SandboxKind, ends: str
) -> None:
    mark = f"94{os.getpid()}.{len(kind)}{len(ends)}"
    line = (
        f"setsid sh -c 'setsid sleep {mark} & sleep {mark}' & while ! ls there; do sleep 0.01; done"
    )
    sandbox = Sandbox(workspace, kind)
    if ends == "by itself":
        line += "; exit 3"
        (workspace / "there").touch()
        assert (await ran(sandbox, f"setsid sleep {mark} & exit 3")).exit_code == 3
        assert (await ran(sandbox, line)).exit_code == 3
    else:
        argv = sandbox.wrap(["/bin/bash", "-c", line])
        result = await run_process(argv, workspace, sandbox.env, 0.5, 100)
        assert result.timed_out
    await gone(processes_with(mark))


async def test_L_a_command_is_killed_to_its_last_process_where_no_processor_is_free(
    workspace: Path,
) -> None:
    mark, sandbox = f"95{os.getpid()}.1", Sandbox(workspace, "landlock")
    (workspace / "nest").write_text(f"[ $1 = 0 ] && exec sleep {mark}; setsid sh nest $(($1 - 1)); true")
    idle = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); os.system('sh nest 8')"
    argv = sandbox.wrap(["/bin/bash", "-c", f'/usr/bin/python3 -c "{idle}"; true'])
    running = asyncio.ensure_future(run_process(argv, workspace, sandbox.env, DEADLINE, 100))
    await until(lambda: bool(processes_with(f"sleep\0{mark}")))
    load = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", "while True: pass")
        for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        running.cancel()
        await asyncio.wait([running])
        assert processes_with(f"sleep\0{mark}") == []
    finally:
        for one in load:
            one.kill()
            await one.wait()


@pytest.mark.parametrize("kind", FENCES)
@pytest.mark.parametrize(
    "deed",
    [
        "os.chmod('f', 0o4755)",
        "os.fchmod(os.open('f', 1), 0o2755)",
        "os.open('g', 0o101, 0o4755)",
        "os.mknod('g', 0o104755)",
    ],
)
async def test_I_no_program_is_made_that_runs_as_its_owner_for_whoever_finds_it(
    workspace: Path, kind: SandboxKind, deed: str
) -> None:
    (workspace / "f").touch()
    result = await ran(Sandbox(workspace, kind), f'/usr/bin/python3 -c "import os; {deed}"')
    assert "PermissionError" in result.output
    assert (
        await ran(Sandbox(workspace, kind), "chmod 755 f && cp f h && test -x h")
    ).exit_code == 0


async def test_I_a_socket_of_another_program_in_the_workspace_is_not_reached(
    tmp_path: Path,
) -> None:
    desk = await Desk.at(tmp_path.resolve())
    effects = CommandEffects(desk.files)
    commands, around = Commands(desk.root, effects=effects), context(desk.bench(), untrusted=False)
    code = "import socket; socket.socket(socket.AF_UNIX).connect('agent.sock')"
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(desk.root / "agent.sock"))
        service.listen()
        result, _, _ = await commands.run(f'/usr/bin/python3 -c "{code}"', around)
        assert "Error" in result.output


@pytest.mark.parametrize("kind", FENCES)
async def test_E5_a_command_has_limits(workspace: Path, kind: SandboxKind) -> None:
    result = await ran(
        Sandbox(workspace, kind), "ulimit -c; ulimit -f; ulimit -v; ulimit -t; ulimit -u"
    )
    core, size, memory, seconds, processes = result.output.split()
    assert (core, size, memory, seconds) == ("0", "2097152", "16777216", "3600")
    assert int(processes) <= 1024 + 4096 * (kind == "landlock")


@pytest.mark.parametrize("kind", FENCES)
async def test_the_environment_is_clean(
    workspace: Path, kind: SandboxKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hush")
    assert "hush" not in (await ran(Sandbox(workspace, kind), "env; cat /proc/self/environ")).output


# -- servers -----------------------------------------------------------------------


def served(
    sandbox: Sandbox,
    command: str,
    env: Mapping[str, str],
    writable: list[Path],
    readable: list[Path],
    network: bool = False,
) -> subprocess.CompletedProcess[str]:
    argv = sandbox.wrap_server(
        ["/bin/sh", "-c", command],
        network=network,
        places=ServerPlaces(writable, readable),
        env=env,
        cwd=sandbox.workspace,
    )
    assert not any(value in word for word in argv for name, value in env.items() if name == "TOKEN")
    return subprocess.run(
        argv, input="line\n", capture_output=True, text=True, timeout=DEADLINE, check=False, env={**os.environ, **env},
        cwd=sandbox.workspace,
    )  # fmt: skip


@pytest.mark.parametrize("kind", [*FENCES, "none"])
def test_E5_a_server_has_its_streams_and_its_own_environment_and_none_of_the_daemons(
    workspace: Path, kind: SandboxKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hush")
    done = served(
        Sandbox(workspace, kind), "cat; env", {"TOKEN": "t0k3n", "PATH": SEARCH_PATH}, [], []
    )
    assert done.stdout.startswith("line\n")
    assert "TOKEN=t0k3n" in done.stdout
    assert "hush" not in done.stdout


@pytest.mark.parametrize("kind", FENCES)
def test_E5_a_server_reaches_its_places_and_no_others(
    workspace: Path, tmp_path: Path, kind: SandboxKind
) -> None:
    mine, yours, other = (tmp_path / name for name in ("mine", "yours", "other"))
    for place in (mine, yours, other):
        place.mkdir()
        (place / "file").write_text(place.name)
    command = f"cat {yours}/file; echo x > {mine}/new; echo x > {yours}/new; cat {other}/file; echo x > {workspace}/new; true"
    done = served(
        Sandbox(workspace, kind),
        command,
        {"PATH": SEARCH_PATH},
        [mine],
        [yours, tmp_path / "missing"],
    )
    assert done.stdout == "yours"
    assert [(place / "new").exists() for place in (mine, yours, workspace)] == [True, False, False]


SERVER = """
    import os, subprocess, sys
    from pathlib import Path
    from daemon.tools.shell.sandbox import ServerPlaces, Sandbox

    place = Path(sys.argv[1])
    argv = Sandbox(place, sys.argv[3]).wrap_server(["sh", "-c", f"echo begun; sleep {sys.argv[2]}"], network=False, places=ServerPlaces([place]),
                                                env={"PATH": "/usr/bin:/bin"}, cwd=place)
    subprocess.run(argv, env={"PATH": "/usr/bin:/bin"}, cwd=place)
"""


async def test_a_server_dies_with_the_daemon(workspace: Path) -> None:
    mark = f"93{os.getpid()}.5"
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(SERVER), str(workspace), mark, "bubblewrap", stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert daemon.stdout
    assert (await asyncio.wait_for(daemon.stdout.readline(), DEADLINE)).strip() == b"begun"
    children = [pid for pid in processes_with(mark) if pid != daemon.pid]
    daemon.send_signal(signal.SIGKILL)
    await daemon.wait()
    await gone(children)


async def test_A3_keys_of_this_machine_are_not_seen_from_inside(tmp_path: Path) -> None:
    """Certificates are, so that programs can check whom they talk to."""
    sandbox = await Sandbox.open(tmp_path)
    argv = sandbox.wrap(
        ["/bin/sh", "-c", "ls /etc/ssl /etc/pki/tls 2>/dev/null; ls /etc/ssl/private"]
    )
    ran = await run_process(
        argv,
        cwd=sandbox.workspace,
        env=sandbox.env,
        timeout_s=20,
        max_chars=1000,
        on_output=lambda text: None,
    )
    assert "private" not in ran.output.split()
    assert ran.exit_code != 0


async def test_python_is_python3_where_the_system_has_no_other(workspace: Path) -> None:
    """A program of that name that the system has is not hidden."""
    own = shutil.which("python", path=SEARCH_PATH)
    found = await ran(
        Sandbox(workspace, "bubblewrap"), "command -v python; python -c 'print(6 * 7)'"
    )
    assert found.output == f"{own or '/run/bin/python'}\n42\n"
