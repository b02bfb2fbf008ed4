"""What `aidaemon chat` shows of the work in a terminal window: drafts, changes, output, the plan,
the status line.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from daemon.settings.secrets import SecretStore
from tests.e2e.test_chat_window import PROMPT, desk
from tests.fakes.chatting import streams
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import calls, gate, says, tokens

CTRL_O = "\x0f"
PRICES = '[provider.prices."fake"]\ninput = 1000.0\noutput = 2000.0\n'
MARKDOWN = "## Steps\n\n- **one** thing\n- `two`\n\n```python\nprint(1)\n```\n\nand **the"


async def test_no_mark_of_markdown_stays_raw_while_the_text_comes(tmp_path: Path) -> None:
    end = asyncio.Event()
    async with desk(tmp_path, streams(MARKDOWN, end, " end**")) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types("go\r")
        screen = await shown.sees("Steps", "• one thing", "• two", "print(1)", "and **the")
        assert "##" not in screen and "```" not in screen and "**one" not in screen
        end.set()
        await shown.sees("and the end")
        await shown.loses("**", "writing")


async def test_the_status_line_tells_model_context_and_cost_and_goes_on_after_a_return(
    tmp_path: Path,
) -> None:
    steps = [says("Hello.", tokens(3000, 200)), says("Again.", tokens(4000, 0))]
    async with desk(tmp_path, *steps) as at:
        config = at.home / "config.toml"
        config.write_text(config.read_text() + PRICES + "[agent]\ncontext_window = 32000\n")
        async with at.chat() as shown:
            await shown.sees(PROMPT)
            shown.types("hi\r")
            await shown.sees("Hello.", "fake · context 3.2k of 32k tokens (10 %) · $3.40")
        async with at.chat() as shown:
            await shown.sees("fake · $3.40")
            shown.types("again\r")
            await shown.sees("Again.", "context 4k of 32k tokens (12 %) · $7.40")


async def test_a_price_that_nobody_knows_is_not_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path, says("Hello.")) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types("hi\r")
        await shown.sees("Hello.", "price unknown")


async def test_a_change_of_a_file_is_a_short_diff_and_the_rest_is_counted(tmp_path: Path) -> None:
    new = "\n".join(f"row {n}" for n in range(30))
    steps = [
        calls(("write_file", {"path": "a.txt", "text": "one\ntwo\nthree\n"})),
        calls(("edit_file", {"path": "a.txt", "old": "one\ntwo", "new": "one\nzwei"})),
        calls(("write_file", {"path": "b.txt", "text": new})),
        says("Done."),
    ]
    async with desk(tmp_path, *steps) as at, at.chat("--yes", columns=60) as shown:
        await shown.sees(PROMPT)
        shown.types("go\r")
        screen = await shown.sees("Done.")
        assert "    +one\n    +two\n    +three\n" in screen
        assert "· edit_file a.txt → edited a.txt, line 1:" in screen, screen
        assert "\n     one\n    -two\n    +zwei\n" in screen
        assert "    +row 5\n    … 24 more lines · Ctrl-O shows all\n" in screen
        shown.types(CTRL_O)
        await shown.sees("+row 29")


async def test_what_a_command_printed_is_seen_its_end_first_and_all_of_it_on_ctrl_o(
    tmp_path: Path,
) -> None:
    steps = [
        calls(("shell", {"command": "seq 101 150"})),
        says("Counted."),
        calls(("shell", {"command": "echo first; echo second"})),
        says("Two."),
    ]
    async with desk(tmp_path, *steps) as at, at.chat("--yes") as shown:
        await shown.sees(PROMPT)
        shown.types("count\r")
        screen = await shown.sees("Counted.")
        assert (
            "    … 44 more lines · Ctrl-O shows all\n    145\n" in screen and "    150\n" in screen
        )
        assert "    144\n" not in screen
        shown.types(CTRL_O)
        await shown.sees("    101\n", "    144\n")
        shown.types("two\r")
        screen = await shown.sees("Two.")
        assert "    first\n    second\n" in screen


async def test_the_plan_is_a_box_that_is_kept_up_to_date(tmp_path: Path) -> None:
    one, two = asyncio.Event(), asyncio.Event()
    plan = [{"text": "read the notes", "state": "doing"}, {"text": "write it", "state": "open"}]
    later = [{"text": "read the notes", "state": "done"}, {"text": "write it", "state": "doing"}]
    ended = [{**item, "state": "done"} for item in later]
    steps = [
        calls(("todo", {"items": plan})),
        gate(one, calls(("todo", {"items": later}))),
        gate(two, calls(("todo", {"items": ended}))),
        says("Written."),
    ]
    async with desk(tmp_path, *steps) as at, at.chat(columns=60) as shown:
        await shown.sees(PROMPT)
        shown.types("go\r")
        await shown.sees("╭ plan: 0 of 2 done", "│ [>] read the notes │", "│ [ ] write it")
        one.set()
        await shown.sees("╭ plan: 1 of 2 done", "│ [x] read the notes │", "│ [>] write it")
        two.set()
        await shown.sees("Written.")
        await shown.loses("╭ plan")


async def test_at_and_tab_complete_the_names_of_the_workspace_and_of_nothing_else(
    tmp_path: Path,
) -> None:
    for name in ("notes.md", "plans/garden.txt", "plans/roof.txt", ".hidden"):
        file = tmp_path / "workspace" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    (tmp_path / "workspace" / "out").symlink_to("/etc")
    async with desk(tmp_path, says("Read."), says("Also.")) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types("read @no\t")
        await shown.sees("› read @notes.md")
        shown.types(" and @pl\t")
        await shown.sees("and @plans/")
        shown.types("ga\t")
        await shown.sees("› read @notes.md and @plans/garden.txt")
        shown.types("\r")
        await shown.sees("Read.")
        sent = at.model.requests[-1].last("user")["content"]
        assert sent == "read @notes.md and @plans/garden.txt"
        shown.types("@\t")
        screen = await shown.sees("notes.md", "plans/", "out/")
        assert ".hidden" not in screen
        shown.types("\x03\x1b[200~mail me@no\x1b[201~\t @out/pass\t @../hist\t\r")
        await shown.sees("Also.")
        sent = at.model.requests[-1].last("user")["content"]
        assert sent == "mail me@no @out/pass @../hist"


async def test_A6_a_question_says_in_words_what_a_command_can_do_above_the_exact_command(
    tmp_path: Path,
) -> None:
    steps = [calls(("shell", {"command": "touch one; echo"})), says("Left.")]
    async with desk(tmp_path, *steps) as at, at.chat(columns=100) as shown:
        await shown.sees(PROMPT)
        shown.types("go\r")
        screen = await shown.sees("allow shell?", "command: touch one; echo", "\nallow?")
        words = "It runs a command in the sandbox, no network; it may destroy something:"
        assert screen.index(words) < screen.index("command: touch one; echo")
        assert "- touch one" in screen and "destructive" in screen
        shown.types("/approve show 1\r")
        screen = await shown.sees("shell (destructive, until")
        assert screen.count(words) == 2


async def test_H1_a_question_of_the_models_shows_its_options_and_takes_a_number_or_words(
    tmp_path: Path,
) -> None:
    options = {"options": ["red", "dark blue"], "default": "red"}
    steps = [
        calls(("ask_user", {"question": "Which colour?", **options})),
        calls(("ask_user", {"question": "Which wood?"})),
        says("Painted."),
    ]
    async with desk(tmp_path, *steps) as at, at.chat(columns=100) as shown:
        await shown.sees(PROMPT)
        shown.types("paint\r")
        await shown.sees("Which colour?", "1. red", "2. dark blue", "without an answer: red")
        await shown.sees("your answer?", "1 to 2 · or write your own")
        shown.types("2\r")
        await shown.sees("Which colour? dark blue", "Which wood?", "in your own words")
        shown.types("old oak\r")
        await shown.sees("Painted.")
        assert at.model.requests[1].last("tool")["content"] == "They chose: dark blue"
        assert at.model.requests[2].last("user")["content"] == "old oak"


async def test_H2_a_secret_is_typed_unseen_after_a_yes_to_its_host(tmp_path: Path) -> None:
    """In a chat that is the daemon, and in one that is attached to it."""
    value = "hunter2-and-more"
    for home in (tmp_path / "alone", tmp_path / "attached"):
        home.mkdir()
        wanted = {"name": "shop", "host": "shop.example", "why": "to look at the basket"}
        steps = [calls(("ask_secret", wanted)), says("Thanks.")]
        async with desk(home, *steps) as at, AsyncExitStack() as stack:
            if home.name == "attached":
                await stack.enter_async_context(running_daemon(home, scripted(at.model.base_url)))
            async with at.chat(columns=100) as shown:
                await shown.sees(PROMPT)
                shown.types("look\r")
                await shown.sees("Keep the secret shop, for shop.example alone?", "yes or no?")
                await shown.sees("Because: to look at the basket")
                shown.types("y\r")
                await shown.sees("shop (not shown):")
                shown.types(f"\x1b[200~{value}\x1b[201~\r")
                screen = await shown.sees("Thanks.")
                assert value not in screen and "hunter" not in screen
            kept = SecretStore(home / "secrets.toml").list_entries()["shop"]
            assert (kept.value, kept.hosts) == (value, ("shop.example",))
            assert all(value not in one.raw.decode() for one in at.model.requests)
            files = [one for one in home.rglob("*") if one.is_file()]
            held = [one.name for one in files if value.encode() in one.read_bytes()]
            assert held == ["secrets.toml"]


async def test_H2_half_of_a_secret_whose_question_goes_away_is_dropped(tmp_path: Path) -> None:
    """The question of a run that is stopped elsewhere; what was typed is no message and in no history."""
    wanted = {"name": "shop", "host": "shop.example"}
    async with desk(tmp_path, calls(("ask_secret", wanted)), says("Hello again.")) as at:
        async with (
            running_daemon(tmp_path, scripted(at.model.base_url)) as daemon,
            at.chat(columns=100) as shown,
        ):
            await shown.sees(PROMPT)
            shown.types("look\r")
            await shown.sees("Keep the secret shop", "yes or no?")
            shown.types("y\r")
            await shown.sees("shop (not shown):")
            shown.types("hunter2-")
            await daemon.post("/v1/sessions/terminal:main/stop")
            await shown.sees("Say what you want instead")
            screen = await shown.loses("shop (not shown):")
            shown.types("hello\r")
            await shown.sees("Hello again.")
        assert "hunter" not in screen
        assert at.model.requests[-1].last("user")["content"].endswith("hello")
        files = [one for one in tmp_path.rglob("*") if one.is_file()]
        assert [one.name for one in files if b"hunter2" in one.read_bytes()] == []


async def test_H2_a_secret_that_another_chat_asks_for_is_asked_for_at_the_terminal(
    tmp_path: Path,
) -> None:
    wanted = {"name": "shop", "host": "shop.example"}
    async with desk(tmp_path, calls(("ask_secret", wanted)), says("Thanks.")) as at:
        async with (
            running_daemon(tmp_path, scripted(at.model.base_url)) as daemon,
            at.chat(columns=100) as shown,
        ):
            await shown.sees(PROMPT)
            turn = await daemon.begin("look", "phone")
            await shown.sees("Keep the secret shop, for shop.example alone?")
            shown.types("y\r")
            await shown.sees("shop (not shown):")
            shown.types("   \r")  # nothing that can be kept: it is asked again
            shown.types("4711\r")
            await shown.sees("too short or too common")
            await daemon.until(turn, "run.completed")
        assert SecretStore(tmp_path / "secrets.toml").list_entries()["shop"].value == "4711"
