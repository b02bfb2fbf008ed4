"""`aidaemon doctor` as a real process: what it finds, and that it says what to do."""

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from aiohttp import web

from tests.fakes.command_line import aidaemon
from tests.fakes.mail.server import mail_server
from tests.fakes.telegram import FakeTelegram

Checks = dict[str, dict[str, Any]]
READY = {"name": "ready", "arguments": '{"word": "yes"}'}
CALLS = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": READY}]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
def open_home(home: Path) -> Path:
    home.chmod(0o755)
    return home


async def examined(home: Path, **env: str) -> tuple[int, Checks]:
    """The exit code and the checks by name; every check that is not ok says what to do."""
    models = {"AIDAEMON_MODELS": str(home / "no-models"), **env}
    done = await asyncio.to_thread(aidaemon, "doctor", "--json", home=home, env=models)
    assert "Traceback" not in done.stderr, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert all(check["advice"] for check in checks.values() if check["state"] != "ok")
    return done.returncode, checks


@asynccontextmanager
async def serving(
    path: str, status: int, body: object, reply: object = CALLS, chat: int = 200
) -> AsyncGenerator[str]:
    """A real server that answers one path, for those who show the right key; and a chat, with this message."""

    async def talk(request: web.Request) -> web.Response:
        asked = await request.json()
        assert asked["tools"][0]["function"]["name"] == "ready"
        choices = [{"index": 0, "finish_reason": "stop", "message": reply}]
        found = {"error": {"message": "no such model"}} if chat != 200 else {"choices": choices}
        return web.json_response(found, status=chat)

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(
            body, status=401 if request.headers.get("Authorization") == "Bearer bad" else status
        )

    app = web.Application()
    app.router.add_get(path, answer)
    app.router.add_post("/v1/chat/completions", talk)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site.name.rstrip("/")
    finally:
        await runner.cleanup()


def configured(home: Path, url: str, more: str = "") -> None:
    text = f'[provider]\nkind = "openai"\nbase_url = "{url}/v1"\n{more}\n[provider.models]\nprimary = "small"\n'
    (home / "config.toml").write_text(text)


async def test_a_server_that_answers_and_lists_the_model_is_ok(home: Path):
    async with serving("/v1/models", 200, {"data": [{"id": "small"}]}) as url:
        configured(home, url)
        code, checks = await examined(home)
    assert (code, checks["model"]["state"]) == (0, "ok")
    assert {
        "python",
        "config",
        "home",
        "disk",
        "journal",
        "memory",
        "sandbox",
        "daemon",
    } <= checks.keys()


async def test_a_model_that_the_server_does_not_list_is_a_warning_that_names_those_it_has(
    home: Path,
):
    async with serving("/v1/models", 200, {"data": [{"id": "big"}]}) as url:
        configured(home, url)
        code, checks = await examined(home)
    assert (code, checks["model"]["state"], "big" in checks["model"]["advice"]) == (0, "warn", True)


@pytest.mark.parametrize(
    ("reply", "chat", "code", "state", "words"),
    [
        (CALLS, 200, 0, "ok", "it calls tools"),
        (
            {"role": "assistant", "content": '<tool_call>{"name": "ready", "arguments": {"word": "yes"}}</tool_call>'},
            200, 0, "ok", "as text that is recovered",
        ),
        ({"role": "assistant", "content": "Yes."}, 200, 0, "warn", "it answers, but calls no tool"),
        (CALLS, 404, 1, "fail", "no such model"),
        (CALLS, 401, 1, "fail", "127.0.0.1"),
    ],
)  # fmt: skip
async def test_g3_a_chat_with_a_tool_is_tried_and_it_is_said_what_to_change(
    home: Path, reply: object, chat: int, code: int, state: str, words: str
):
    async with serving("/v1/models", 200, {"data": [{"id": "small"}]}, reply, chat) as url:
        configured(home, url)
        found, checks = await examined(home)
    tools = checks["model tools"]
    assert (found, tools["state"], words in tools["found"]) == (code, state, True), tools
    assert state != "warn" or "--jinja" in tools["advice"]


async def test_a_refused_key_fails_and_is_not_shown(home: Path):
    async with serving("/v1/models", 200, {}) as url:
        configured(home, url, 'api_key = "bad"')
        code, checks = await examined(home)
    assert (code, checks["model"]["state"]) == (1, "fail")
    assert "refuses the key" in checks["model"]["found"]


async def test_a_server_that_is_not_there_fails(home: Path):
    configured(home, "http://127.0.0.1:9")
    code, checks = await examined(home)
    assert (code, checks["model"]["state"]) == (1, "fail")


async def test_what_is_wrong_with_a_fallback_names_the_fallbacks_own_keys(home: Path):
    async with serving("/v1/models", 200, {"data": [{"id": "small"}]}) as url:
        fallbacks = f'[[provider.fallbacks]]\nbase_url = "http://127.0.0.1:9"\n[[provider.fallbacks]]\nbase_url = "{url}/v1"\n'
        configured(home, url)
        (home / "config.toml").write_text((home / "config.toml").read_text() + fallbacks)
        _, checks = await examined(home)
    assert "provider.fallbacks.0.base_url" in checks["fallback 0"]["advice"]
    assert "provider.fallbacks.1.model" in checks["fallback 1"]["advice"]


async def test_an_embedded_model_that_is_not_here_yet_comes_with_the_command_that_fetches_it(
    home: Path,
):
    code, checks = await examined(home)
    assert checks["model"]["state"] == "warn"
    assert code == 0 or checks["extras"]["state"] == "fail"


async def test_a_config_that_does_not_load_is_a_finding_and_the_rest_is_looked_at_all_the_same(
    home: Path,
):
    (home / "config.toml").write_text("[agent]\nmax_iterations = 99\n")
    code, checks = await examined(home)
    assert (code, checks["config"]["state"]) == (1, "fail")
    assert "agent.max_iterations" in checks["config"]["found"] and checks["disk"]["state"] == "ok"


async def test_an_agent_whose_file_is_wrong_is_a_finding(home: Path):
    """B1"""
    (home / "agents").mkdir()
    (home / "agents" / "coder.toml").write_text(
        '[identity]\nname = "coder"\n[iteration]\nmax_cycles = 0\n'
    )
    code, checks = await examined(home)
    assert (code, checks["agents"]["state"]) == (1, "fail")
    assert (
        "coder.toml: iteration.max_cycles: found 0, expected 1 or more" in checks["agents"]["found"]
    )
    (home / "agents" / "coder.toml").write_text(
        '[identity]\nname = "coder"\n[loop]\ncriterion = "regex"\nvalue = "("\n'
    )
    assert (await examined(home))[1]["agents"]["state"] == "warn"
    (home / "agents" / "coder.toml").write_text('[identity]\nname = "coder"\n')
    assert (await examined(home))[1]["agents"]["found"] == "default, coder"


async def test_a_home_that_others_can_read_comes_with_the_command_that_closes_it(open_home: Path):
    home = open_home
    code, checks = await examined(home)
    assert (code, checks["home"]["advice"]) == (1, f"chmod 700 {home}")


async def test_a_damaged_journal_fails(home: Path):
    with closing(sqlite3.connect(home / "journal.db")) as database:
        database.execute("CREATE TABLE notes (text TEXT)")
        database.executemany("INSERT INTO notes VALUES (?)", [("x" * 900,)] * 100)
        database.commit()
    _, checks = await examined(home)
    assert checks["journal"]["state"] == "ok"
    with (home / "journal.db").open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 8192)
    code, checks = await examined(home)
    assert (code, checks["journal"]["state"]) == (1, "fail")


@pytest.mark.parametrize(
    ("status", "problems", "state"), [(200, [], "ok"), (503, ["the disk is full"], "fail")]
)
async def test_a_running_daemon_is_asked_how_it_is(
    home: Path, status: int, problems: list[str], state: str
):
    async with serving(
        "/health", status, {"ok": status == 200, "version": "0", "problems": problems}
    ) as url:
        (home / "daemon.json").write_text(json.dumps({"pid": 1, "url": url}))
        _, checks = await examined(home)
    assert checks["daemon"]["state"] == state
    assert all(problem in checks["daemon"]["found"] for problem in problems)


async def test_a_daemon_that_died_without_a_word_is_a_warning(home: Path):
    (home / "daemon.json").write_text(json.dumps({"pid": 1, "url": "http://127.0.0.1:9"}))
    _, checks = await examined(home)
    assert checks["daemon"]["state"] == "warn"


async def test_without_bubblewrap_it_says_how_to_get_it(home: Path):
    """Root gets no lesser sandbox: a command would be root."""
    is_root = os.geteuid() == 0
    _, checks = await examined(home, PATH="/nonexistent")
    assert (
        checks["sandbox"]["state"],
        "apt install bubblewrap" in checks["sandbox"]["advice"],
        "as an ordinary user" in checks["sandbox"]["advice"],
    ) == ("fail" if is_root else "warn", True, is_root)
    assert checks["sandbox"]["found"].startswith(
        "no command runs: the daemon is root"
        if is_root
        else "landlock: commands read the workspace and the system"
    )


def test_for_people_each_finding_is_a_line_with_the_advice_below_it(open_home: Path):
    done = aidaemon("doctor", home=open_home)
    lines = done.stdout.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("fail  home"))
    assert lines[at + 1].strip() == f"-> chmod 700 {open_home}"


async def test_A14_a_platform_is_asked_whether_it_knows_the_token_and_empty_ones_are_told(
    home: Path,
):
    """Good and bad tokens, a section without people, people without a token."""
    async with FakeTelegram() as telegram:
        well = tomli_w.dumps({"telegram": telegram.config()})
        (home / "config.toml").write_text(well)
        _, checks = await examined(home)
        assert checks["telegram"]["state"] == "ok" and "@house_bot" in checks["telegram"]["found"]
        (home / "config.toml").write_text(well.replace(telegram.token, "1:wrong"))
        code, checks = await examined(home)
        assert code == 1 and checks["telegram"]["state"] == "fail" and "1:wrong" not in str(checks)
        bare = {"bot_token": telegram.token, "base_url": telegram.url}
        (home / "config.toml").write_text(
            tomli_w.dumps({"telegram": bare, "discord": {"owner_ids": [5]}})
        )
        _, checks = await examined(home)
        assert (
            checks["telegram people"]["state"] == "warn"
            and "nobody is listed" in checks["telegram people"]["found"]
        )
        assert (
            checks["discord"]["state"] == "warn"
            and "bot_token is empty" in checks["discord"]["found"]
        )


async def test_a_mailbox_signs_in_and_the_doctor_says_whether_senders_can_be_proven(home: Path):
    async with mail_server() as server:
        section = server.config(allowed_senders=["ann@example.org"])
        (home / "config.toml").write_text(tomli_w.dumps({"email": section}))
        _, checks = await examined(home)
        assert checks["email"]["state"] == checks["email senders"]["state"] == "ok"
        mute = {**section, "authserv_id": ""}
        (home / "config.toml").write_text(tomli_w.dumps({"email": mute}))
        _, checks = await examined(home)
        assert checks["email senders"]["state"] == "warn"
        assert "none is ever proven" in checks["email senders"]["found"]
        (home / "config.toml").write_text(tomli_w.dumps({"email": {**section, "password": "no"}}))
        code, checks = await examined(home)
    assert code == 1 and "refuses bot@example.net" in checks["email"]["found"]
