"""Files of HOME that are damaged, absent or empty: what is damaged is told, and nothing is silently new (K23)."""

from pathlib import Path

from tests.e2e.channels.stage import brisk, by_bot, config
from tests.fakes.daemon_process import Daemon, error_of, running_daemon
from tests.fakes.openai import FakeOpenAI, says
from tests.fakes.platform import OWNER
from tests.fakes.platforms import comings

PAGE = 2048


def spoil(path: Path) -> None:
    """Overwrite every third page."""
    with path.open("r+b") as file:
        for start in range(0, path.stat().st_size, 3 * PAGE):
            file.seek(start)
            file.write(b"\xa5" * PAGE)


async def post(daemon: Daemon, number: int) -> tuple[int, str]:
    message = {"text": f"hello {number}", "session": f"s{number}", "client_id": "c"}
    async with daemon.http.post("/v1/messages", json=message) as response:
        return response.status, (await error_of(response))[2] if response.status >= 400 else ""


async def test_K23_a_journal_that_is_damaged_while_it_runs_takes_in_nothing_and_is_told(
    tmp_path: Path,
) -> None:
    telegram = brisk("telegram")
    async with FakeOpenAI() as model:
        model.otherwise(says("ok"))
        await telegram.start()
        written = config(model, telegram)
        chat = telegram.private(OWNER)
        async with running_daemon(tmp_path / "home", written) as daemon:
            telegram.say(OWNER, chat, "hello")
            await telegram.until(lambda: len(by_bot(telegram, chat)) == 1)
            for number in range(30):  # a journal of many pages
                assert (await daemon.ask(f"{number} " * 500, f"s{number}"))["reply"] == "ok"
        async with running_daemon(tmp_path / "home", written) as daemon:
            await telegram.until(lambda: comings(telegram) > 0)
            spoil(tmp_path / "home" / "journal.db")
            answers = [await post(daemon, number) for number in range(20)]
            assert answers[-1][0] == 503 and "aidaemon backup restore" in answers[-1][1]
            assert [status for status, _ in answers].count(202) <= 3
            async with daemon.http.get("/health") as response:
                assert response.status == 503
                assert "the journal is damaged" in await response.text()
            await telegram.until(
                lambda: "the journal is damaged" in by_bot(telegram, chat)[-1].text, 30
            )
            assert await daemon.terminate() == 0
        await telegram.stop()
