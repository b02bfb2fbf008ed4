"""The network by domain: a command reaches what was approved and nothing else, whatever it says to the proxy."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from daemon.core.events import ApprovalAsked, Outcome
from daemon.core.rows import RuleRow
from daemon.core.trust import Decision, Effect, Label
from daemon.tools.config import ShellConfig
from daemon.tools.policy.rules import RuleMatcher
from daemon.tools.shell.background import BackgroundCommands, check_command
from daemon.tools.shell.tool import Shell, shell_tool
from tests.fakes.house import Living, living
from tests.fakes.mcp import PROGRAM, Script, keeping
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.tools import Bench
from tests.security.by_domain import (
    MAY,
    connect,
    far,
    fence,
    get,
    reach,
    run,
    say,
    saying,
    terminal,
)

ROOT = Path(__file__).parents[2]
FETCH = "/usr/bin/python3 -c 'import sys, urllib.request as one; print(one.urlopen(sys.argv[1]).read())' "
LOCALHOST = {"open.example": ["127.0.0.1"]}


async def test_of_all_places_a_command_reaches_only_the_approved_ones(tmp_path: Path) -> None:
    assert {name for name, is_reached in (await reach(tmp_path / "w")).items() if is_reached} == MAY


async def test_an_ordinary_program_finds_the_proxy_by_itself_and_its_output_is_a_strangers(
    tmp_path: Path,
) -> None:
    async with far() as server:
        place = f"open.example:{server.port}"
        bench = terminal(fence(tmp_path / "w", [place], LOCALHOST))
        done = await run(bench, f"{FETCH} http://{place}/list?q=1", [place])
        assert "pong" in done.text and done.label is Label.UNTRUSTED
        [request] = server.seen
        first, *fields = request.decode().split("\r\n")
        assert first == "GET /list?q=1 HTTP/1.1"
        assert f"Host: {place}" in fields and "Connection: close" in fields
        assert "refused" not in done.text


async def test_the_result_names_what_was_refused_and_nothing_was_sent_there(tmp_path: Path) -> None:
    async with far() as server:
        open_place, other = f"open.example:{server.port}", f"evil.example:{server.port}"
        sandbox = fence(tmp_path / "w", [open_place, other], LOCALHOST)
        heard, text = await say(
            sandbox, [open_place, "*.open.example"], get(f"http://{other}/"), connect("evil.example:443"),
            connect("open.example:443"), get("http://deep.open.example:81/"), get(f"http://{server.place}/"),
        )  # fmt: skip
        for one in heard:
            assert one[0].startswith("HTTP/1.1 403 ") and "not among the approved domains" in one[0]
        for place in (other, "evil.example", "open.example", "deep.open.example:81", server.place):
            assert f"refused: {place} (not among the approved domains)" in text
        assert server.seen == []


async def test_a_star_covers_what_is_below_it_and_not_what_only_ends_alike(tmp_path: Path) -> None:
    async with far() as server:
        port = server.port
        names = {
            f"{one}.example": ["127.0.0.1"] for one in ("a.shop", "a.b.shop", "shop", "myshop")
        }
        sandbox = fence(tmp_path / "w", [f"{one}:{port}" for one in names], names)
        heard, _ = await say(
            sandbox, [f"*.shop.example:{port}"], *(get(f"http://{one}:{port}/") for one in names)
        )
        assert ["pong" in one[0] for one in heard] == [True, True, False, False]


@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.1", "loopback"), ("10.1.2.3", "private network"), ("169.254.169.254", "local link"),
     ("::ffff:127.0.0.1", "in another form")],
)  # fmt: skip
async def test_an_approved_name_that_leads_inside_is_refused_like_in_any_web_tool(
    tmp_path: Path, address: str, why: str
) -> None:
    sandbox = fence(tmp_path / "w", (), {"open.example": [address]})
    heard, text = await say(
        sandbox, ["open.example"], connect("open.example:443"), get("http://open.example/")
    )
    assert all(one[0].startswith("HTTP/1.1 403 ") for one in heard)
    assert "refused: open.example (open.example is " in text and why in text


@pytest.mark.parametrize(
    ("place", "why"),
    [("router.lan:443", "a name inside"), ("open.example:25", "port 25 is for mail"),
     ("10.1.2.3:443", "a private network"), ("[::1]:443", "loopback")],
)  # fmt: skip
async def test_an_approved_place_that_no_web_tool_may_ask_is_refused_too(
    tmp_path: Path, place: str, why: str
) -> None:
    names = {"router.lan": ["93.184.215.14"], "open.example": ["93.184.215.14"]}
    heard, text = await say(fence(tmp_path / "w", (), names), [place], connect(place))
    assert heard[0][0].startswith("HTTP/1.1 403 ") and why in text


async def test_TLS_that_names_another_host_than_was_approved_goes_nowhere(tmp_path: Path) -> None:
    async with far() as server:
        place = f"open.example:{server.port}"
        sandbox = fence(tmp_path / "w", [place], LOCALHOST)
        heard, text = await say(
            sandbox, [place], connect(place, "hello:open.example"), connect(place, "hello:evil.example"),
            connect(place, "hello:"), connect(place, "plain words"), connect(place, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"),
        )  # fmt: skip
        assert [one[0].split("\r\n")[0] for one in heard] == [
            "HTTP/1.1 200 Connection established"
        ] * 5
        passed = ["pong" in one[1] for one in heard]
        assert passed == [True, False, False, True, False]
        assert "refused: evil.example (as the TLS name of a connection to open.example)" in text
        assert len(server.seen) == 2


async def test_at_port_443_nothing_but_TLS_goes_through(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(far(443))
        except OSError:
            pytest.skip("this user may not listen at port 443 here")
        sandbox = fence(tmp_path / "w", ["open.example:443"], LOCALHOST)
        place = "open.example:443"
        heard, text = await say(
            sandbox, ["open.example"], connect(place, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
            connect(place, "hello:open.example"),
        )  # fmt: skip
        assert ["pong" in one[1] for one in heard] == [False, True]
        assert "refused: open.example:443 (what was sent there is no TLS)" in text
        assert len(server.seen) == 1


BAD_HEADS = (
    "GET / HTTP/1.1\r\nHost: open.example\r\n\r\n",
    "GET https://open.example:PORT/ HTTP/1.1\r\n\r\n",
    "GET http://open.example:PORT@evil.example/ HTTP/1.1\r\n\r\n",
    "GET http://evil.example\\@open.example:PORT/ HTTP/1.1\r\n\r\n",
    "GET http://0x7f.1:PORT/ HTTP/1.1\r\n\r\n",
    "GET http://open.example:PORT/ HTTP/1.1\r\nX: a\nHost: evil.example\r\n\r\n",
    "GET http://open.example:PORT/ HTTP/1.1\r\n folded\r\n\r\n",
    "GET http://open.example:PORT/ HTTP/1.1\r\nHost : evil.example\r\n\r\n",
    "CONNECT http://open.example:PORT/ HTTP/1.1\r\n\r\n",
    "CONNECT open.example:PORT/x HTTP/1.1\r\n\r\n",
    "CONNECT me@open.example:PORT HTTP/1.1\r\n\r\n",
    "CONNECT open.example:99999 HTTP/1.1\r\n\r\n",
    "\x05\x01\x00\r\n\r\n",
)


async def test_what_is_no_plain_request_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async with far() as server:
        place = f"open.example:{server.port}"
        sandbox = fence(tmp_path / "w", [place], LOCALHOST)
        heads = [[[head.replace("PORT", str(server.port))]] for head in BAD_HEADS]
        endless = [["GET http://" + place + "/ HTTP/1.1\r\nX: " + "a" * 40_000]]
        heard, _ = await say(sandbox, [place], *heads, endless, get(f"http://{place}/"))
        *refused, too_long, good = heard
        assert [one[0][:13] for one in refused] == ["HTTP/1.1 403 "] * len(BAD_HEADS)
        assert "200" not in too_long[0] and "pong" in good[0]
        assert len(server.seen) == 1


async def test_a_host_of_the_commands_own_making_is_replaced_and_hop_fields_are_dropped(
    tmp_path: Path,
) -> None:
    async with far() as server:
        place = f"open.example:{server.port}"
        fields = (
            "Host: evil.example\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\nX-Kept: 1\r\n"
        )
        head = f"POST http://{place}/ HTTP/1.1\r\n{fields}Content-Length: 2\r\n\r\nhi"
        sandbox = fence(tmp_path / "w", [place], LOCALHOST)
        await say(sandbox, [place], [[head]])
        request = b"".join(server.seen).decode()
        assert f"Host: {place}\r\n" in request and "evil" not in request
        assert "Proxy" not in request and "Upgrade" not in request
        assert "X-Kept: 1" in request and request.endswith("\r\n\r\nhi")


async def test_more_connections_than_there_are_slots_wait_in_the_sandbox(tmp_path: Path) -> None:
    code = (
        "import socket\n"
        "def one():\n"
        "    made = socket.create_connection(('127.0.0.1', 3128), 20)\n"
        "    made.sendall(b'CONNECT PLACE HTTP/1.1\\r\\n\\r\\nx'); return made\n"
        "def heard(made, wait=20):\n"
        "    made.settimeout(wait)\n"
        "    try: return b'200' in made.recv(100)\n"
        "    except TimeoutError: return False\n"
        "held = [one() for _ in range(36)]\n"
        "print('heard', sum(map(heard, held[:32])), sum(heard(one, 0.2) for one in held[32:]))\n"
        "for each in held[:8]: each.close()\n"
        "print('then', sum(map(heard, held[32:])))\n"
    )
    async with far() as server:
        place = f"open.example:{server.port}"
        bench = terminal(fence(tmp_path / "w", [place], LOCALHOST))
        (tmp_path / "w" / "many.py").write_text(code.replace("PLACE", place))
        done = await run(bench, "/usr/bin/python3 many.py", [place])
        assert "heard 32 0\n" in done.text and "then 4" in done.text
        assert server.most <= 32


async def test_the_question_shows_the_domains_and_a_lasting_yes_is_for_these_alone(
    tmp_path: Path,
) -> None:
    async with far() as server, FakeOpenAI() as model:
        home = {"tools": {"http": {"allow": [server.place]}}}
        command = f"{FETCH} http://{server.place}/"

        async def wants(it: Living, *domains: str) -> str:
            it.model.script(
                calls(("shell", {"command": command, "domains": list(domains)})), says("done")
            )
            return await it.say("look what is there")

        async with living(tmp_path, model, home) as it:
            turn = await wants(it, server.place)
            await it.until(turn, "run.suspended")
            assert server.seen == []
            shown = await it.command("/approve show 1")
            assert f"with the network, but only to {server.place}: it can send there" in shown
            await it.command("/approve always")
            await it.settled(turn)
            assert len(server.seen) == 1
            await it.settled(await wants(it, server.place))
            assert len(server.seen) == 2
            turn = await wants(it, server.place, "pypi.org")
            await it.until(turn, "run.suspended")
            [asked] = [one for one in await it.events(turn) if isinstance(one, ApprovalAsked)]
            assert f"only to {server.place}, pypi.org" in asked.preview
            assert len(server.seen) == 2


@pytest.mark.parametrize(
    "domains",
    [["*"], ["*.com"], ["https://pypi.org"], ["pypi.org/simple"], ["pypi.org:0"], ["a b"], [""],
     ["*.10.0.0.1"], ["2130706433"], ["pyp\u0456.org"], ["me@pypi.org"], ["x.example"] * 21],
)  # fmt: skip
async def test_what_is_no_domain_is_refused_before_anybody_is_asked(
    tmp_path: Path, domains: list[str]
) -> None:
    bench = terminal(fence(tmp_path / "w"), granted=False)
    done = await run(bench, "true", domains)
    assert done.outcome is Outcome.ERROR and "domain" in done.text
    assert bench.recorded(ApprovalAsked) == []


@pytest.mark.parametrize("label", [Label.TRUSTED, Label.UNTRUSTED])
async def test_a_command_with_domains_is_always_asked_about_however_harmless_and_whatever_was_read(
    tmp_path: Path, label: Label
) -> None:
    made = Shell(fence(tmp_path / "w"), ShellConfig(allowed=["ls"]))
    bench = Bench([shell_tool(made)], {Shell: made}, label=label)
    call = json.dumps({"command": "ls", "domains": ["pypi.org"]})
    assert await bench.run(("shell", call)) == [None]
    assert len(bench.recorded(ApprovalAsked)) == 1


async def test_domains_and_the_whole_network_exclude_each_other(tmp_path: Path) -> None:
    bench = terminal(fence(tmp_path / "w"), granted=False)
    done = await run(bench, "true", ["pypi.org"], network=True)
    assert done.outcome is Outcome.ERROR and "not both" in done.text


@pytest.mark.parametrize("kind", ["landlock", "none"])
async def test_without_bubblewrap_a_command_with_domains_does_not_run_and_nobody_is_asked(
    tmp_path: Path, kind: str
) -> None:
    made = fence(tmp_path / "w", kind="landlock" if kind == "landlock" else "none")
    bench = terminal(made, granted=False)
    done = await run(bench, "touch made", ["pypi.org"])
    assert done.outcome is Outcome.ERROR and "domains need bubblewrap" in done.text
    assert bench.recorded(ApprovalAsked) == [] and not (tmp_path / "w" / "made").exists()


async def test_a_rule_about_a_host_holds_below_an_approved_star(tmp_path: Path) -> None:
    async with far() as server:
        names = {"a.shop.example": ["127.0.0.1"], "b.shop.example": ["127.0.0.1"]}
        sandbox = fence(tmp_path / "w", [f"{one}:{server.port}" for one in names], names)
        bench = terminal(sandbox)
        guard = RuleMatcher(
            action=Decision.DENY, effects=frozenset(Effect), values=("b.shop.example",)
        )
        bench.dispatcher.gate.rules.put(  # type: ignore[attr-defined]
            RuleRow(1, "never talk to b.shop.example", guard.model_dump_json(), "", "me", True)
        )
        requests = [get(f"http://{one}:{server.port}/") for one in names]
        done = await run(bench, saying(sandbox, requests), [f"*.shop.example:{server.port}"])
        assert "rule 1 ('never talk to b.shop.example') forbids this" in done.text
        assert len(server.seen) == 1


async def test_the_proxy_ends_with_its_command_in_the_background_too(tmp_path: Path) -> None:
    async with far() as server:
        place = f"open.example:{server.port}"
        bench = terminal(fence(tmp_path / "w", [place], LOCALHOST))
        hold = (
            f"exec 5<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {place} HTTP/1.1\\r\\n\\r\\nx' >&5; "
        )
        for ends in ("head -c 60 <&5 >/dev/null", "sleep 600"):
            more = {"background": True} if "600" in ends else {}
            await run(bench, hold + ends, [place], **more)
            async with asyncio.timeout(20):
                while not server.seen:
                    await asyncio.sleep(0.01)
                if more:
                    assert server.open and _proxies()
                    background = bench.parts  # the shell with its commands
                    for part in background.values():
                        await part.background.aclose()  # type: ignore[attr-defined]
                while server.open:
                    await asyncio.sleep(0.01)
            assert not _proxies()
            server.seen.clear()


async def test_what_a_background_command_was_refused_stands_in_its_report(tmp_path: Path) -> None:
    sandbox = fence(tmp_path / "w")
    made = Shell(sandbox, ShellConfig())
    parts: dict[type, object] = {Shell: made, BackgroundCommands: made.background}
    bench = Bench([shell_tool(made), check_command], parts, granted=("shell",))
    words = saying(sandbox, [connect("evil.example:443")])
    started = await run(bench, words, ["open.example"], background=True)
    looked = {"id": started.text.partition(":")[0], "wait_s": 20}
    told = (await bench.run(("check_command", json.dumps(looked))))[-1]
    assert told and "refused: evil.example (not among the approved domains)" in told.text


def _proxies() -> list[str]:
    names = [one.get_name() for one in asyncio.all_tasks()]
    return [name for name in names if name.startswith("network of")]


DAEMON = """
    import asyncio, sys
    from pathlib import Path
    from daemon.tools.shell.process import Start, stream_process
    from daemon.tools.shell.sandbox import Sandbox
    from daemon.tools.web.guard import AddressGuard

    async def main():
        sandbox = Sandbox(Path(sys.argv[1]), "bubblewrap", guard=AddressGuard([sys.argv[2]]))
        async with sandbox.open_proxy([sys.argv[2]]) as proxy:
            line = sandbox.wrap(["bash", "-c", sys.argv[3]], proxy=proxy)
            await stream_process(print, line, sandbox.workspace, sandbox.env, 60, Start(fds=proxy.fds))

    asyncio.run(main())
"""


async def test_a_killed_daemon_leaves_no_proxy_no_connection_and_no_file(tmp_path: Path) -> None:
    place = tmp_path / "w"
    place.mkdir()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    async with far() as server:
        mark = f"94{os.getpid()}.5"
        hold = f"exec 5<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {server.place} HTTP/1.1\\r\\n\\r\\nx' >&5; sleep {mark}"
        daemon = await asyncio.create_subprocess_exec(
            sys.executable, "-c", textwrap.dedent(DAEMON), str(place), server.place, hold,
            env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "TMPDIR": str(scratch)},
        )  # fmt: skip
        async with asyncio.timeout(20):
            while not server.seen:
                await asyncio.sleep(0.01)
            daemon.send_signal(signal.SIGKILL)
            await daemon.wait()
            while server.open or _processes_with(mark):
                await asyncio.sleep(0.01)
        assert [*scratch.iterdir(), *place.iterdir()] == []


def _processes_with(mark: str) -> list[str]:
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in one.read_bytes():
                found.append(one.parent.name)
        except OSError:
            continue
    return found


async def test_an_mcp_server_has_the_domains_of_its_config_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script(tmp_path / "server")
    script.write([{"name": "look", "description": "Look"}], {"look": [{"text": "seen"}]})
    async with far() as server, far() as other:
        asks = [
            f"curl -s -m 5 http://{one.place}/ >> {script.folder}/got" for one in (server, other)
        ]
        code = f"import os, sys; os.system({'; '.join(asks)!r}); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        words = ["-c", code, str(PROGRAM), str(script.file), str(script.log)]
        table = script.table(args=words, domains=[server.place])
        sandbox = fence(tmp_path / "home", [server.place, other.place])
        async with keeping(tmp_path / "home", {"desk": table}, sandbox=sandbox) as kept:
            assert kept.servers.problems() == {}
            got = (script.folder / "got").read_text()
    assert got.startswith("pong") and len(server.seen) == 1 and other.seen == []
    assert (
        f"MCP server desk: refused: {other.place} (not among the approved domains)" in caplog.text
    )


async def test_an_mcp_server_with_domains_is_not_started_without_bubblewrap(tmp_path: Path) -> None:
    script = Script(tmp_path / "server")
    script.write([{"name": "look", "description": "Look"}])
    sandbox = fence(tmp_path / "home", kind="landlock")
    table = script.table(domains=["pypi.org"])
    async with keeping(tmp_path / "home", {"desk": table}, sandbox=sandbox) as kept:
        assert "domains need bubblewrap" in kept.servers.problems()["desk"]
    assert script.starts() == 0
