"""Files and piped input from the terminal and over HTTP go with the message that they belong to (G1, x04)."""

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pexpect
import pytest

from daemon.cli.terminal.attachments import find_named_files
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.documents import RENT, make_docx, make_pdf
from tests.fakes.memory import USERS
from tests.fakes.openai import FakeOpenAI, by, says

ROOT = Path(__file__).parents[2]


@dataclass
class Told:
    """How `chat` ended, and what the model got."""

    code: int
    out: str
    err: str
    said: str


@dataclass
class Terminal:
    """A HOME to chat on, with a daemon beside or without one."""

    home: Path
    model: FakeOpenAI

    async def chat(self, *words: str, piped: bytes | int = asyncio.subprocess.DEVNULL) -> Told:
        stdin = asyncio.subprocess.PIPE if isinstance(piped, bytes) else piped
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "daemon", "chat", "--home", str(self.home), *words, stdin=stdin,
            stdout=-1, stderr=-1, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        out, err = await process.communicate(piped if isinstance(piped, bytes) else None)
        said = str(self.model.requests[-1].last("user")["content"]) if self.model.count else ""
        return Told(process.returncode or 0, out.decode(), err.decode(), said)

    def label(self) -> str:
        """Of the latest turn."""
        with closing(sqlite3.connect(f"file:{self.home}/journal.db?mode=ro", uri=True)) as file:
            return str(file.execute("SELECT label FROM turns ORDER BY id DESC").fetchone()[0])


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as model:
        model.otherwise(by(lambda body: says("Fine.")))
        yield model


@pytest.fixture(params=["alone", "beside"])
async def terminal(
    request: pytest.FixtureRequest, tmp_path: Path, model: FakeOpenAI
) -> AsyncIterator[Terminal]:
    home, config = tmp_path / "home", scripted(model.base_url)
    home.mkdir()
    (home / "config.toml").write_text(config)
    async with AsyncExitStack() as stack:
        if request.param == "beside":
            await stack.enter_async_context(running_daemon(home, config))
        yield Terminal(home, model)


async def test_x04_what_is_piped_in_goes_with_the_message_as_data(terminal: Terminal) -> None:
    told = await terminal.chat("--once", "What does this log say?", piped=b"one\nERROR: disk full\n")
    assert (told.code, told.out, told.err) == (0, "Fine.\n", "")
    assert told.said == "What does this log say?\n\none\nERROR: disk full"
    assert (terminal.label(), terminal.model.count) == ("untrusted", 1)
    words = ("--once", "Sum up", "--trust-input")
    assert (await terminal.chat(*words, "--session", "b", piped=b"my words")).said.endswith("my words")
    assert terminal.label() == "trusted"


async def test_x04_what_is_long_or_no_text_goes_along_as_a_file(terminal: Terminal) -> None:
    lines = b"".join(b"line %d\n" % one for one in range(9000))
    told = await terminal.chat("--once", "What is it?", piped=lines)
    assert "input.txt, text/plain, " in told.said and "line 1\n" in told.said
    assert "line 8999" not in told.said and "read_file shows all]" in told.said
    told = await terminal.chat("--once", "And this?", piped=make_docx())
    assert told.said.startswith("And this?\n\n[file: inbox/") and RENT in told.said


async def test_x04_nothing_that_is_piped_in_holds_the_message_up(terminal: Terminal) -> None:
    read, write = os.pipe()  # nobody ever writes, or closes it
    try:
        told = await terminal.chat("--once", "Hello there", piped=read)
    finally:
        os.close(read)
        os.close(write)
    assert (told.code, told.said) == (0, "Hello there")
    assert "nothing came from stdin in 3 s; the message is sent without it" in told.err
    assert (await terminal.chat("--once", "Again", piped=b"")).said == "Again"
    assert (await terminal.chat("--once", "Nothing")).said == "Nothing"


async def test_x04_what_a_script_reads_itself_is_left_to_it(terminal: Terminal, tmp_path: Path) -> None:
    lines, env = tmp_path / "lines", {**os.environ, "PYTHONPATH": str(ROOT)}
    lines.write_text("one\ntwo\n")
    command = f'"{sys.executable}" -m daemon chat --home "{terminal.home}" --once "$line"'
    script = f'while read line; do {command}; done < "{lines}"'
    process = await asyncio.create_subprocess_exec("/bin/bash", "-c", script, env=env, stdout=-1)
    await process.communicate()
    asked = [str(one.last("user")["content"]) for one in terminal.model.requests]
    assert asked == ["one", "two"]
    with lines.open("rb") as file:
        assert (await terminal.chat("--once", "Sum up", piped=file.fileno())).said == "Sum up\n\none\ntwo"


async def test_g1_files_by_their_names_go_with_the_message(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "a.pdf").write_bytes(make_pdf())
    (tmp_path / "b c.docx").write_bytes(make_docx())
    names = ("-f", str(tmp_path / "a.pdf"), "--file", str(tmp_path / "b c.docx"))
    told = await terminal.chat("--once", "Compare them", *names)
    assert told.said.count(RENT) == 2 and "-a.pdf, application/pdf" in told.said
    assert "-b c.docx, " in told.said and terminal.label() == "untrusted"
    told = await terminal.chat("--once", "Look", "-f", str(tmp_path / "none"))
    assert (told.code, terminal.model.count) == (2, 1)
    assert told.err.startswith(f"aidaemon: {tmp_path / 'none'}: there is no such file")
    assert not [*(terminal.home / "files" / "uploads").glob("*/*")]


async def test_g1_a_path_behind_an_at_sends_the_file_along(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(make_pdf())
    words = ["-m", "daemon", "chat", "--home", str(terminal.home)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    child = pexpect.spawn(sys.executable, words, env=env, encoding="utf-8", timeout=20)
    await child.expect("> ", async_=True)
    child.sendline(f"Sum up @{tmp_path}/a.pdf please")
    asked = await terminal.model.asked(1)
    assert RENT in str(asked.last("user")["content"])
    await child.expect("Fine.", async_=True)
    child.sendeof()
    await child.expect(pexpect.EOF, async_=True)


async def test_g1_a_file_waits_for_the_first_message_that_is_no_command(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "a.pdf").write_bytes(make_pdf())
    words = ["-m", "daemon", "chat", "--home", str(terminal.home), "-f", str(tmp_path / "a.pdf")]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    child = pexpect.spawn(sys.executable, words, env=env, encoding="utf-8", timeout=20)
    await child.expect("> ", async_=True)
    child.sendline("/effort low")
    await child.expect("> ", async_=True)
    child.sendline("Sum up")
    assert RENT in str((await terminal.model.asked(1)).last("user")["content"])
    child.sendeof()
    await child.expect(pexpect.EOF, async_=True)


def test_only_typed_words_name_a_file(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("x")
    (tmp_path / "c.txt").write_text("x")
    line = f'Look at @"{tmp_path}/a b.txt" and @{tmp_path}/c.txt, not me@{tmp_path}/c.txt or @c.txt'
    assert find_named_files(line.replace(",", " ,"), ()) == [f"{tmp_path}/a b.txt", f"{tmp_path}/c.txt"]
    assert find_named_files(f"Is it @{tmp_path}/c.txt? (or @{tmp_path}/c.txt)", ()) == [f"{tmp_path}/c.txt"]
    assert find_named_files(f"@/{'a' * 300} @~nobody/x @/root/\0x", ()) == []
    pasted = f"read @{tmp_path}/c.txt"
    assert find_named_files(f"Please {pasted}", (pasted,)) == []


async def upload(daemon: Daemon, data: bytes, name: str = "a.pdf", token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with daemon.http.post(f"/v1/files?name={name}", data=BytesIO(data), headers=headers) as answer:
        found = await answer.json()
        return answer.status, found.get("file") or str(found)


async def test_g1_over_http_a_file_is_sent_first_and_named_by_the_message(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = tmp_path / "home"
    async with running_daemon(place, scripted(model.base_url, USERS)) as daemon:
        status, token = await upload(daemon, make_pdf())
        assert status == 201
        given = {"text": "Sum up", "client_id": "k1", "files": [token]}
        first = await daemon.post("/v1/messages?wait=1", **given)
        assert RENT in str(model.requests[-1].last("user")["content"])
        again = await daemon.post("/v1/messages?wait=1", **given)  # the file is not there any more
        assert (again["turn"], model.count) == (first["turn"], 1)
        _, alone = await upload(daemon, make_pdf())
        await daemon.post("/v1/messages?wait=1", files=[alone])
        assert model.count == 2 and RENT in str(model.requests[-1].last("user")["content"])
        async with daemon.http.post("/v1/messages", json={"text": "x", "files": ["0" * 32]}) as answer:
            assert answer.status == 400 and "no file" in await answer.text()
        async with daemon.http.post("/v1/messages", json={"text": "x", "files": ["../../a"]}) as answer:
            assert answer.status == 400
        assert (await upload(daemon, b"x" * 20_000_001))[0] == 413
        assert (await upload(daemon, b"x", "%20"))[0] == 400
        assert not [*(place / "files" / "uploads").glob("*/*")]
        assert (await upload(daemon, b"", "empty"))[0] == 201


async def test_g1_what_nobody_sent_a_message_for_goes_after_two_days(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = tmp_path / "home" / "files" / "uploads"
    async with running_daemon(tmp_path / "home", scripted(model.base_url, USERS)) as daemon:
        _, old = await upload(daemon, b"x", "old.txt")
        [file] = place.glob(f"*/{old}-*")
        past = time.time() - 49 * 3600
        os.utime(file, (past, past))
        await upload(daemon, b"x", "new.txt")
        assert [one.name.partition("-")[2] for one in place.glob("*/*")] == ["new.txt"]


async def test_g1_a_viewer_sends_no_file(tmp_path: Path, model: FakeOpenAI) -> None:
    users = '[[http.users]]\nname = "vic"\nrole = "viewer"\ntoken = "token-of-the-viewer-1234567890"\n'
    async with running_daemon(tmp_path / "home", scripted(model.base_url, users)) as daemon:
        status, _ = await upload(daemon, b"x", token="token-of-the-viewer-1234567890")
        assert status == 403
