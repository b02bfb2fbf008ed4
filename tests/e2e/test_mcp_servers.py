"""Seven MCP servers that others wrote, added as their READMEs say: each lists its tools and answers one call (G2)."""

import asyncio
import shutil
import subprocess
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.test_mcp_add import Stage, at
from tests.fakes.daemon_process import running_daemon
from tests.fakes.openai import Json, calls, says

__all__ = ["at"]
pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed here"),
]
SCOPE = "@modelcontextprotocol/server"


def npx(name: str, *words: str) -> list[str]:
    return ["--", "npx", "-y", name, *words]


async def works(
    at: Stage, name: str, words: list[str], tool: str, arguments: Json, *, tools: int
) -> str:
    """Add it, and have the daemon call one of its tools, after a yes where it asks; what the model got."""
    at.within = 200  # packages come over the network
    shown = await at.add(name, "--yes", *words)
    assert shown.count(f"  {name}__") == tools, shown
    at.model.script(calls((f"{name}__{tool}", arguments)), says("That is it."))
    async with running_daemon(at.home, None) as daemon, asyncio.timeout(100):
        while f"MCP server {name}" in str(await daemon.get("/health")):
            await asyncio.sleep(0.1)  # a busy machine is slow to start it
        turn = await daemon.begin("use it")
        async for sent in daemon.stream(turn):
            if sent.name == "approval.asked":
                await daemon.post(f"/v1/runs/{turn}/approve", call_id=sent.data["call_id"])
            if sent.name == "run.completed":
                break
    return str(at.model.requests[-1].last("tool")["content"])


async def test_everything(at: Stage) -> None:
    got = await works(
        at, "every", npx(f"{SCOPE}-everything@2026.8.31"), "echo", {"message": "hello"}, tools=15
    )
    assert "hello" in got


async def test_everything_else_of_everything(at: Stage) -> None:
    """Its resources are read by a tool, its prompts are orders of the owner's with a stranger's words, and its
    long work shows how far it is.
    """
    await at.add("every", "--yes", *npx(f"{SCOPE}-everything@2026.8.31"))
    async with running_daemon(at.home, None) as daemon:
        at.model.script(calls(("every__read_resource", {})), says("Read."))
        await daemon.ask("what is there?", "one")
        listed = str(at.model.requests[-1].last("tool")["content"])
        uri = listed.split('"')[-2] if ": " not in listed else listed.split(": ")[0].split('"')[-1]
        at.model.script(calls(("every__read_resource", {"uri": uri})), says("Read."))
        turn = await daemon.begin("read it", "one")
        await daemon.until(turn, "run.completed")
        assert uri in str(at.model.requests[-1].last("tool")["content"])
        assert (await daemon.run(turn))["label"] == "untrusted"

        at.model.script(says("Sunny."))
        said = (await daemon.ask("/every:args-prompt city=Lisbon", "two"))["reply"]
        assert said == "I work by the prompt args-prompt of every."
        await at.model.asked(5)
        asked = str(at.model.requests[-1].last("user")["content"])
        assert "Do what this prompt args-prompt of the MCP server every says" in asked
        assert "Lisbon" in asked
        wrong = (await daemon.ask("/every:nothing", "two"))["reply"]
        assert "has no prompt nothing. Its prompts:" in str(wrong) and "args-prompt" in str(wrong)

        tool = "every__trigger-elicitation-request"
        at.model.script(calls((tool, {})), says("Thank you."))
        turn, questions = await daemon.begin("ask me", "four"), []
        async for sent in daemon.stream(turn):
            if sent.name == "approval.asked" and sent.data["tool"] == tool:
                await daemon.post(f"/v1/runs/{turn}/approve", call_id=sent.data["call_id"])
            elif sent.name == "approval.asked":
                questions.append(str(sent.data["arguments"]))
                await daemon.post("/v1/messages", 202, text="Ann", session="four")
            if sent.name == "run.completed":
                break
        assert "The MCP server every asks, and reads your answer: " in questions[0]
        assert len(questions) == 1, questions
        assert "Ann" in str(at.model.requests[-1].last("tool")["content"])

        work = {"duration": 2, "steps": 4}
        at.model.script(calls(("every__trigger-long-running-operation", work)), says("Done."))
        turn = await daemon.begin("work", "three")
        shown = []
        async for sent in daemon.stream(turn):
            if sent.name == "approval.asked":
                await daemon.post(f"/v1/runs/{turn}/approve", call_id=sent.data["call_id"])
            if sent.name == "tool.output":
                shown.append(str(sent.data["text"]))
            if sent.name == "run.completed":
                break
        assert "1 of 4" in "".join(shown) and "4 of 4" in "".join(shown)


async def test_filesystem(tmp_path: Path, at: Stage) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "note.txt").write_text("the cellar key is blue")
    words = npx(f"{SCOPE}-filesystem@2026.8.31", str(docs))
    given = {"path": str(docs / "note.txt")}
    got = await works(at, "files", words, "read_text_file", given, tools=14)
    assert "the cellar key is blue" in got


async def test_memory(at: Stage) -> None:
    """It keeps its file where the README's variable says, in its own folder of HOME."""
    kept = at.home / "mcp" / "memory" / "graph.jsonl"
    words = ["--env", f"MEMORY_FILE_PATH={kept}", *npx(f"{SCOPE}-memory@2026.8.31")]
    ann = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
    got = await works(at, "memory", words, "create_entities", {"entities": [ann]}, tools=9)
    assert "likes tea" in got and "likes tea" in kept.read_text()


async def test_time(at: Stage) -> None:
    words = ["--", "uvx", "mcp-server-time@2026.10.19", "--local-timezone=Europe/Lisbon"]
    given = {"timezone": "Asia/Tokyo"}
    got = await works(at, "time", words, "get_current_time", given, tools=2)
    assert "Asia/Tokyo" in got and "+09:00" in got


async def test_git(tmp_path: Path, at: Stage) -> None:
    repository = tmp_path / "repository"
    await to_thread(subprocess.run, ["git", "init", "-q", repository], check=True)
    (repository / "new.txt").write_text("new")
    words = ["--", "uvx", "mcp-server-git@2026.10.19", "--repository", str(repository)]
    given = {"repo_path": str(repository)}
    got = await works(at, "git", words, "git_status", given, tools=12)
    assert "new.txt" in got


async def test_fetch(at: Stage) -> None:
    """`python -m`, and the network. Raw: what makes Markdown of a page installs npm packages beside itself at
    its first use, where Node.js is, and an installed server is read-only.
    """
    async with site() as address:
        words = ["--network", "--", "python", "-m", "mcp_server_fetch"]
        words += ["--ignore-robots-txt", "--allow-private-ips"]
        given = {"url": f"{address}/page", "raw": True}
        got = await works(at, "fetch", words, "fetch", given, tools=1)
    assert "Hello from the page" in got


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed here")
async def test_playwright(at: Stage) -> None:
    """Debian's own browser, in the sandbox, without the network."""
    options = ["--headless", "--isolated", "--no-sandbox", "--executable-path", "/usr/bin/chromium"]
    page = "data:text/html,<title>Hello</title><h1>from the page</h1>"
    words = npx("@playwright/mcp@0.0.83", *options)
    got = await works(at, "browser", words, "browser_navigate", {"url": page}, tools=25)
    assert "Hello" in got


@asynccontextmanager
async def site() -> AsyncIterator[str]:
    """One page on this machine."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<h1>Hello from the page</h1>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/page", page)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
