"""The uses that README begins with (the third one, asking before it acts, is its picture: test_readme_chat)."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from tests.e2e.mail.test_mail_answers import server
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.mail.mailbox import mail_config, until_watching
from tests.fakes.mail.server import MailServer, write_mail
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.platform import OWNER
from tests.fakes.telegram import FakeTelegram

__all__ = ["server"]
TASK = "Which mails of today matter? Two lines each."


async def test_every_morning_at_8_the_mails_that_matter_are_on_the_phone_a16(
    server: MailServer, tmp_path: Path
) -> None:
    clock, home = tmp_path / "clock", tmp_path / "home"
    clock.write_text(datetime(2026, 11, 26, 6, tzinfo=UTC).isoformat())
    telegram = FakeTelegram()
    await telegram.start()
    chat = telegram.private(OWNER)
    more = {"telegram": telegram.config(), "general": {"timezone": "Europe/Berlin"}}
    try:
        async with FakeOpenAI() as model:
            config = mail_config(model, server, more, notify=chat, rules=[{"ignore": True}])
            env = {"AIDAEMON_TEST_CLOCK": str(clock)}
            async with running_daemon(home, config, env) as daemon:
                await until_watching(daemon)
                await server.dovecot.deliver(
                    write_mail("The report is due at noon.", subject="Report")
                )
                words = ("schedule", "add", "every day at 8:00", TASK, "--session", chat)
                said = await asyncio.to_thread(aidaemon, *words, home=home)
                assert "Thu 2026-11-26 08:00 CET" in said.stdout, said
                model.script(calls(("mail_search", {})), says("Ann: the report is due at noon."))
                later = clock.with_suffix(".new")
                later.write_text(datetime(2026, 11, 26, 7, 0, 1, tzinfo=UTC).isoformat())
                later.replace(clock)
                await telegram.until(
                    lambda: any(
                        "Ann: the report is due at noon." in one.text
                        for one in telegram.shown(chat)
                    )
                )
                assert "Report" in str(model.requests[1].last("tool")["content"])
    finally:
        await telegram.stop()


async def test_it_answers_from_the_notes_in_its_folder_a1(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "dentist.md").write_text("The dentist wants to see me again in March.\n")
    async with FakeOpenAI() as model:
        home = tmp_path / "home"
        home.mkdir()
        config = scripted(model.base_url, f'[tools]\nworkspace = "{notes}"\n')
        (home / "config.toml").write_text(config)
        model.script(calls(("read_file", {"path": "dentist.md"})), says("In March."))
        question = "When does the dentist want to see me?"
        done = await asyncio.to_thread(aidaemon, "chat", "--once", question, home=home)
        assert done.stdout == "In March.\n", done
        assert "again in March" in str(model.requests[1].last("tool")["content"])
