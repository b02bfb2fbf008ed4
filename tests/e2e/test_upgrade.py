"""A HOME that commit 4cb0a74 made opens with today's program: its turns are shown, the one that waits goes on.

It was made by a real daemon of that commit with a scripted model: an ordinary turn, one with write_file, one with a sub-agent,
one that waits for an approval, and a pinned rule; then `aidaemon pair`.

One of aad6a45 has what that version added: labels of files, a permission and a question that are bound to deploy.sh, a memory and
one that waits, and a file that a command had left and was set aside. One of a34b7be has a mail that was answered, one that is held,
and a goal.
"""

import asyncio
import shutil
import sqlite3
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from daemon.core.trust import Label, Stop
from daemon.store.sqlite import SqliteStore
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, Json, running_daemon, scripted
from tests.fakes.mail.mailbox import mail_config, until_watching
from tests.fakes.mail.server import mail_server, write_mail
from tests.fakes.openai import FakeOpenAI, calls, says

FIXTURE = Path(__file__).parents[1] / "fixtures" / "home_4cb0a74"
OF_AAD6A45 = FIXTURE.with_name("home_aad6a45")
OF_E1F2531 = FIXTURE.with_name("home_e1f2531")
OF_A34B7BE = FIXTURE.with_name("home_a34b7be")
ANSWERED = "<99c0e121be04d019f7a53de9.eb1a4f7e2b80ec29@example.net>"
WHILE_IT_WAITS = "2026-11-22T20:00:00+00:00"
CONFIG = "[tools]\napproval_minutes = 43200\n[agent]\ncheck_claims = false\n"
REPLIES = {"hello": "Hello, Ann.", "write one line into notes.txt": "I wrote notes.txt."}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURE, tmp_path / "home"))


async def test_every_turn_is_shown_and_the_one_that_waits_is_resumed(
    home: Path, tmp_path: Path
) -> None:
    clock = tmp_path / "clock"
    clock.write_text(WHILE_IT_WAITS)
    (home / "workspace" / "old").mkdir()
    env = {"AIDAEMON_TEST_CLOCK": str(clock)}
    async with (
        FakeOpenAI() as model,
        running_daemon(home, scripted(model.base_url, CONFIG), env) as daemon,
    ):
        lines = await daemon.listed("/v1/runs")
        assert len(lines) == 5
        for line in lines:
            shown = await asyncio.to_thread(aidaemon, "show", str(line["turn"]), home=home)
            assert shown.returncode == 0, shown.stderr
        views = [await daemon.run(str(line["turn"])) for line in lines]
        said = {view["reply"] for view in views if view["state"] == "ended"}
        assert said == {*REPLIES.values(), "My sub-agent counted to three.", "one two three"}
        [waiting] = [view for view in views if view["state"] == "suspended"]
        model.script(says("I removed the folder."))
        turn = str(waiting["turn"])
        await daemon.post(f"/v1/runs/{turn}/approve", call_id="3.0")
        await daemon.until(turn, "run.completed")
        view = await daemon.run(turn)
        assert (view["stop_reason"], view["reply"]) == ("done", "I removed the folder.")
        [call] = await daemon.calls_of(turn)
        assert "rule 1" in str(call)  # it was pinned while the turn waited
        assert (home / "workspace" / "old").exists()
        rules = await daemon.ask("/rules", "other")
        assert "never run rm -rf /" in str(rules)


async def test_what_stood_beside_the_turns_stands_in_tables_of_its_own(home: Path) -> None:
    with closing(sqlite3.connect(home / "journal.db")) as db:
        spent = db.execute("SELECT COUNT(*), SUM(input_tokens) FROM usage").fetchone()
        rows = {
            "cursor": ("telegram", "42"),
            "unreadable": ("telegram/7", '{"at": "2026-11-22T19:00:00+00:00", "why": "no", "raw": "{"}'),
            "stranger": ("telegram//9", "2026-11-22T19:00:00+00:00"),
            "draft": ("t9", "m1"),
            "person": ("telegram//5", '{"role": "editor", "since": "2026-11-22T19:00:00+00:00"}'),
            "pairing_wrong": ("telegram//6", '["2026-11-22T19:00:00+00:00"]'),
            "owners_place": ("slack", "2026-11-22T19:00:00+00:00 slack:D1 slack//U1"),
            "called": ("slack//U1", "Ann"),
            "feedback": ("t9", '{"U1": "👍"}'),
            "file": ("a%FF", '{"path": "a\\udcff", "label": "untrusted", "turn": "t9", "scope": "file"}'),
            "command": ("c1", '{"at_ns": 5, "turn": "t9"}'),
            "mcp": ("mail", '{"approved": []}'),
            "questions_shown": ('["s", "ann"]', '{"listed": [], "whole": []}'),
        }  # fmt: skip
        with db:
            db.executemany(
                "INSERT INTO kept VALUES (?, ?, ?)", [(kind, *row) for kind, row in rows.items()]
            )
            db.execute("INSERT OR REPLACE INTO kept VALUES ('rule-last', 'rule-last', '4')")
    async with aclosing(await SqliteStore.open(home / "journal.db")) as store:
        found = await store.read(
            lambda tx: (
                tx.get_cursor("telegram"), [row[0] for row in tx.list_unreadable()], tx.list_drafts(),
                [(row.name, row.role, row.since.hour) for row in tx.list_people()], tx.count_wrong_codes("telegram//6"),
                [(row.session, row.person) for row in tx.list_owner_chats()], tx.get_display_name("slack//U1"),
                tx.list_reactions("t9"), [(row.path, row.label) for row in tx.list_file_labels()],
                tx.get_pins("mail"),
                tx.get_shown_questions("s", "ann"), [row.path for row in tx.list_file_versions()],
                [(row.role, row.channel) for row in tx.list_pairing_codes()],
            )
        )  # fmt: skip
        assert found == (
            "42", ["telegram/7"], {"t9": "m1"}, [("telegram//5", "editor", 19)], 1,
            [("slack:D1", "slack//U1")], "Ann", ["👍"], [("", Label.UNTRUSTED), ("a\udcff", Label.UNTRUSTED), ("notes.txt", Label.TRUSTED)], '{"approved": []}',
            '{"listed": [], "whole": []}', ["notes.txt"], [("editor", "telegram")],
        )  # fmt: skip
        assert [row.said for row in await store.read(lambda tx: tx.list_rules())] == [
            "never run rm -rf /"
        ]
        assert await store.write(lambda tx: tx.add_rule("never pay", "{}", "", "owner")) == 5
        now = (await store.read(lambda tx: tx.list_all_turns(1)))[0].started_at
        [usage] = await store.read(lambda tx: tx.sum_usage(now))
        assert (usage.calls, usage.input_tokens) == spent
        assert await store.read(lambda tx: tx.count_stops(now.replace(hour=0))) == {"done": 4}
        assert await store.read(lambda tx: tx.list_recent_stops("default", 9)) == [Stop.DONE] * 4


async def test_a_chat_goes_on_after_what_it_said_was_pruned(home: Path, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("2026-12-05T20:00:00+00:00")
    env = {"AIDAEMON_TEST_CLOCK": str(clock)}
    config = f"{CONFIG}[store]\nkeep_days = 7\n"
    async with (
        FakeOpenAI() as model,
        running_daemon(home, scripted(model.base_url, config), env) as daemon,
    ):
        async with asyncio.timeout(20):
            while not any("are removed" in line for line in daemon.log):
                await daemon.get("/health")
        lines = await daemon.listed("/v1/runs")
        assert sorted(str(line["state"]) for line in lines) == [*["pruned"] * 4, "suspended"]
        for line in lines:
            shown = await asyncio.to_thread(aidaemon, "show", str(line["turn"]), home=home)
            assert shown.returncode == 0, shown.stderr
        model.script(says("Hello again."))
        assert (await daemon.ask("hello"))["reply"] == "Hello again."
        assert "Hello, Ann." not in str(model.requests[-1].body)


async def test_the_owner_of_a_home_of_before_is_told_once_that_no_limit_is_set(home: Path) -> None:
    for number in range(3):  # at first there is nobody to tell
        async with (
            FakeOpenAI() as model,
            running_daemon(home, scripted(model.base_url, CONFIG)) as daemon,
        ):
            if not number:
                model.script(says("hello"))
                path = "/v1/terminal/main/messages?wait=1"
                await daemon.post(path, text="hello")
    with closing(sqlite3.connect(home / "journal.db")) as journal:
        found = journal.execute("SELECT count(*) FROM outbox WHERE body LIKE '%no limit in money%'")
        assert found.fetchone() == (1,)
        assert journal.execute("SELECT count(*) FROM untold").fetchone() == (0,)


async def test_the_files_in_a_home_of_before_are_the_owners_and_what_was_a_strangers_stays_so(
    home: Path,
) -> None:
    for name in ("letters/one.txt", "found.txt"):
        (home / "workspace" / name).parent.mkdir(exist_ok=True)
        (home / "workspace" / name).write_text("text")
    shown: list[str] = []
    async with (
        FakeOpenAI() as model,
        running_daemon(home, scripted(model.base_url, CONFIG)) as daemon,
    ):
        shown.append(await _read_as(model, daemon, "letters/one.txt", "laid"))
        shown.append(await _read_as(model, daemon, "notes.txt", "own"))
        done = await asyncio.to_thread(aidaemon, "trust", "--remove", "found.txt", home=home)
        assert "found.txt is not trusted any more" in done.stdout, done
        left = await asyncio.to_thread(aidaemon, "trust", home=home)
        assert "1 file in the workspace is a stranger's (.: 1)" in left.stdout, left
        shown.append(await _read_as(model, daemon, "found.txt", "found"))
    assert shown == ["trusted", "trusted", "untrusted"]


async def _read_as(model: FakeOpenAI, daemon: Daemon, path: str, session: str) -> str:
    """The label of a chat that has read this file."""
    model.script(calls(("read_file", {"path": path})), says("read"))
    return str((await daemon.ask("what is there?", session))["label"])


async def _approve(daemon: Daemon, turn: str, asked: Json) -> None:
    answer = {"call_id": asked["call_id"], "question": asked["question"]}
    await daemon.post(f"/v1/runs/{turn}/approve", **answer)


async def test_what_was_trusted_bound_and_kept_aside_in_a_home_of_aad6a45_is_so_still(
    tmp_path: Path,
) -> None:
    home, clock = Path(shutil.copytree(OF_AAD6A45, tmp_path / "home")), tmp_path / "clock"
    clock.write_text("2026-11-24T08:00:00+00:00")
    env, made = {"AIDAEMON_TEST_CLOCK": str(clock)}, home / "workspace" / "made"
    async with (
        FakeOpenAI() as model,
        running_daemon(home, scripted(model.base_url, CONFIG), env) as daemon,
    ):
        lines = await daemon.listed("/v1/runs")
        assert sorted(str(line["state"]) for line in lines) == [*["ended"] * 6, "suspended"]
        for line in lines:
            shown = await asyncio.to_thread(aidaemon, "show", str(line["turn"]), home=home)
            assert shown.returncode == 0, shown.stderr
        [asked] = await daemon.listed("/v1/approvals")
        assert "runs deploy.sh (1 line, " in str(asked["preview"]) and not made.exists()
        model.script(says("I ran it."))
        first, turn = asked, str(asked["turn"])
        await _approve(daemon, turn, asked)
        while asked["question"] == first["question"]:  # it says what strangers have left, too
            [asked] = await daemon.listed("/v1/approvals") or [first]
        assert "found.txt is new" in str(asked["preview"]) and not made.exists()
        await _approve(daemon, turn, asked)
        await daemon.until(turn, "run.completed")
        assert made.is_dir()
        model.script(calls(("shell", {"command": "sh deploy.sh"})), says("Deployed."))
        turn = await daemon.begin("deploy it once more", session="again")
        await daemon.until(turn, "approval.asked")
        [asked] = await daemon.listed("/v1/approvals")
        assert "files were bound in another way when it was allowed" in str(asked["preview"])
        await _approve(daemon, turn, asked)
        await daemon.until(turn, "run.completed")
        [call] = await daemon.calls_of(turn)
        assert (call["decision"], call["is_error"]) == ("ask", False)
        for path, label in (
            ("letters/one.txt", "trusted"),
            ("notes.txt", "trusted"),
            ("found.txt", "untrusted"),
        ):
            assert await _read_as(model, daemon, path, path.partition("/")[0]) == label, path
        assert "eve@evil.example" not in str([request.body for request in model.requests])
        replies = [
            str((await daemon.post("/v1/messages", text=text))["reply"])
            for text in ("/memory", "/memory pending", "/rules", "/grants")
        ]
    wanted = ("Dr. Adler", "eve@evil.example", "never run rm -rf /", "sh deploy.sh")
    assert [one in reply for one, reply in zip(wanted, replies, strict=True)] == [True] * 4, replies
    assert [file.name for file in (home / "quarantine").rglob("*") if file.is_file()] == [".envrc"]


async def test_schedules_and_what_strangers_brought_of_a_home_of_e1f2531_are_known_still(
    tmp_path: Path,
) -> None:
    home, clock = Path(shutil.copytree(OF_E1F2531, tmp_path / "home")), tmp_path / "clock"
    clock.write_text("2026-11-25T06:59:00+00:00")
    (home / "workspace" / "sum.txt").rename(home / "workspace" / "mine" / "sum.txt")  # by hand
    env = {"AIDAEMON_TEST_CLOCK": str(clock)}
    config = '[general]\ntimezone = "Europe/Berlin"\n'
    async with (
        FakeOpenAI() as model,
        running_daemon(home, scripted(model.base_url, config), env) as daemon,
    ):
        model.otherwise(says("The news: nothing."))
        rows = {str(one["name"]): one for one in await daemon.listed("/v1/schedules")}
        assert {name: row["state"] for name, row in rows.items()} == {
            "sum-up-the-news": "active",
            "look-at-the-shop": "paused",
        }
        assert rows["sum-up-the-news"]["due"] == "2026-11-25T07:00:00+00:00"
        clock.write_text("2026-11-25T07:00:10+00:00")
        async with asyncio.timeout(30):
            while len(runs := await _list_news(daemon)) < 2 or not _have_ended(runs):
                await asyncio.sleep(0.05)
        assert await _read_as(model, daemon, "mine/notes.txt", "own") == "trusted"
        assert await _read_as(model, daemon, "mine/sum.txt", "moved") == "untrusted"


async def test_mails_and_goals_of_a_home_of_a34b7be_go_on(tmp_path: Path) -> None:
    home, clock = Path(shutil.copytree(OF_A34B7BE, tmp_path / "home")), tmp_path / "clock"
    clock.write_text("2026-11-24T09:59:00+00:00")
    env = {"AIDAEMON_TEST_CLOCK": str(clock)}
    async with FakeOpenAI() as model, mail_server() as server:
        more = {"general": {"timezone": "Europe/Berlin"}}
        answering = {"reply": True, "allowed_senders": ["ann@example.org"]}
        config = mail_config(model, server, more, **answering)
        async with running_daemon(home, config, env) as daemon:
            [goal] = await daemon.listed("/v1/goals")
            assert (goal["text"], goal["state"]) == ("Find a flat in Lisbon", "active")
            assert server.sink.sent == []
            clock.write_text("2026-11-24T10:00:01+00:00")
            await server.sink.until(lambda: len(server.sink.sent) == 1)
            await until_watching(daemon)
            model.script(says("You are welcome."))
            await server.dovecot.deliver(
                write_mail("Thanks!", subject="Re: Meeting", number="2", answers=ANSWERED)
            )
            asked = await model.asked(1)
            await server.sink.until(lambda: len(server.sink.sent) == 2)
    held, answer = server.sink.sent
    assert (held.people, held.text) == (("bob@example.com",), "Lunch at one?")
    assert (answer.people, answer.text) == (("ann@example.org",), "You are welcome.")
    assert "At noon." in str(asked.body["messages"])  # the same conversation


def _have_ended(runs: list[Json]) -> bool:
    """None of them asks the model any more."""
    return all(run["state"] == "ended" for run in runs)


async def _list_news(daemon: Daemon) -> list[Json]:
    lines = await daemon.listed("/v1/runs")
    return [one for one in lines if str(one["session"]).startswith("schedule_")]
