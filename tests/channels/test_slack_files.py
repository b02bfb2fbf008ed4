"""Files both ways; the token goes to Slack and nowhere else (A14)."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from channels.base import DeliveryUnknown, Rejected, RetryLater
from channels.message import Address, Attachment, OutboundMessage
from tests.channels.slack_stage import Stage, fake, stage
from tests.fakes.platform import Fault
from tests.fakes.slack.server import BOT_TOKEN


@dataclass(slots=True)
class Elsewhere:
    """A server that is not Slack's, and the headers it has seen."""

    url: str = ""
    seen: list[str] = field(default_factory=list)


@asynccontextmanager
async def elsewhere() -> AsyncIterator[Elsewhere]:
    there = Elsewhere()

    async def answer(request: web.Request) -> web.Response:
        there.seen.append(request.headers.get("Authorization", ""))
        return web.Response(body=b"mine")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    there.url = f"http://127.0.0.1:{runner.addresses[0][1]}/file"
    try:
        yield there
    finally:
        await runner.cleanup()


async def shared(on: Stage, name: str = "b.txt", data: bytes = b"text") -> Attachment:
    """A file that Ann has sent."""
    on.slack.say("ann", on.dm.chat, "look", files=[(name, data)])
    await on.house.until(lambda: bool(on.house.messages))
    return on.house.messages[0].attachments[0]


async def test_A14_a_file_that_came_is_fetched_with_the_token():
    async with fake() as slack, stage(slack) as on:
        into = io.BytesIO()
        await on.channel.download(await shared(on), into)
        assert into.getvalue() == b"text"
        assert [token for _, token in slack.server.tokens] == [f"Bearer {BOT_TOKEN}"]


async def test_A14_a_file_known_by_its_id_only_is_fetched():
    async with fake() as slack, stage(slack) as on:
        file = await shared(on)
        into = io.BytesIO()
        await on.channel.download(
            Attachment("document", "b.txt", "text/plain", 4, file.ref.split("/")[-2].split("-")[1]),
            into,
        )
        assert into.getvalue() == b"text"
        with pytest.raises(Rejected, match="file_not_found"):
            await on.channel.download(
                Attachment("document", "b.txt", "text/plain", 4, "F404"), io.BytesIO()
            )


async def test_B5_13_the_token_goes_to_no_other_host():
    async with fake() as slack, stage(slack) as on, elsewhere() as there:
        with pytest.raises(Rejected, match="not at Slack"):
            await on.channel.download(
                Attachment("document", "b.txt", "text/plain", 4, there.url), io.BytesIO()
            )
        assert there.seen == []
        assert slack.server.tokens == []


async def test_B5_13_the_token_follows_no_redirect_to_another_host():
    async with elsewhere() as there:
        async with fake() as slack:
            slack.server.pages = []
            slack.server.moved = there.url
            async with stage(slack) as on:
                with pytest.raises(Rejected, match="not at Slack"):
                    await on.channel.download(await shared(on), io.BytesIO())
        assert there.seen == []


async def test_A14_a_file_that_is_too_long_is_refused_whatever_was_said_of_it():
    async with fake() as slack, stage(slack) as on:
        file = await shared(on, data=b"x" * (on.channel.capabilities.max_download + 1))
        with pytest.raises(Rejected, match="bigger than"):
            await on.channel.download(file, io.BytesIO())
        into = io.BytesIO()
        with pytest.raises(Rejected, match="bigger than"):
            await on.channel.download(
                Attachment(file.kind, file.name, file.mime, 0, file.ref), into
            )
        assert len(into.getvalue()) <= on.channel.capabilities.max_download


async def test_A14_slacks_login_page_is_not_taken_for_the_file():
    async with fake() as slack, stage(slack) as on:
        file = await shared(on)
        slack.fail("download", Fault("garbage"))
        with pytest.raises(Rejected, match="files:read"):
            await on.channel.download(file, io.BytesIO())


@pytest.mark.parametrize("fault", [Fault("status", 502), Fault("drop", times=2)], ids=str)
async def test_B5_13_a_download_that_breaks_off_may_be_tried_again(fault: Fault):
    async with fake() as slack, stage(slack) as on:
        file = await shared(on)
        slack.fail("download", fault)
        with pytest.raises(RetryLater):
            await on.channel.download(file, io.BytesIO())


async def test_A14_a_file_is_sent_into_the_thread_with_its_caption(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"bytes")
    async with fake() as slack, stage(slack) as on:
        thread = slack.say("ann", on.dm.chat, "send it")
        address = Address("slack", on.dm.chat, thread)
        message = await on.channel.send(
            OutboundMessage(
                address,
                on.channel.render("**here**")[0],
                "k1",
                file=tmp_path / "a",
                name="report.txt",
            )
        )
        [shown] = slack.shown(on.dm.chat, thread)
        assert (shown.id, shown.text, shown.files) == (message, "here", (("report.txt", b"bytes"),))
        assert all(not token for path, token in slack.server.tokens if path.startswith("/upload"))


async def test_B5_13_before_a_file_is_in_the_chat_all_may_be_tried_again_and_after_that_it_is_unclear(
    tmp_path: Path,
):
    (tmp_path / "a").write_bytes(b"bytes")
    async with fake() as slack, stage(slack) as on:
        caption = on.channel.render("here")[0]
        for method, fault in (
            ("files.getUploadURLExternal", Fault("lost", times=2)),
            ("upload", Fault("drop")),
            ("upload", Fault("status", 502)),
        ):
            slack.fail(method, fault)
            with pytest.raises(RetryLater):
                await on.channel.send(
                    OutboundMessage(on.dm, caption, "k1", file=tmp_path / "a", name="a.txt")
                )
        slack.fail("files.completeUploadExternal", Fault("lost"))
        with pytest.raises(DeliveryUnknown):
            await on.channel.send(
                OutboundMessage(on.dm, caption, "k1", file=tmp_path / "a", name="a.txt")
            )
        assert len(slack.shown(on.dm.chat)) == 1


async def test_A14_an_empty_file_is_refused(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"")
    async with fake() as slack, stage(slack) as on:
        with pytest.raises(Rejected, match="is empty"):
            await on.channel.send(
                OutboundMessage(
                    on.dm, on.channel.render("here")[0], "k1", file=tmp_path / "a", name="a.txt"
                )
            )


async def test_B5_13_a_file_whose_answer_was_lost_is_found_by_who_sent_it(tmp_path: Path):
    (tmp_path / "f").write_bytes(b"text")
    async with fake() as slack, stage(slack, listening=False) as on:
        piece, since = on.channel.render("here")[0], datetime.now(UTC)
        slack.fail("files.completeUploadExternal", Fault("drop"), Fault("lost"))
        for _ in range(2):
            assert await on.channel.find(OutboundMessage(on.dm, piece, "k1"), since) == ""
            with pytest.raises(DeliveryUnknown):
                await on.channel.send(
                    OutboundMessage(on.dm, piece, "k1", file=tmp_path / "f", name="f.txt")
                )
        assert await on.channel.find(OutboundMessage(on.dm, piece, "k2"), since) == ""
        [shown] = slack.shown(on.dm.chat)
        assert await on.channel.find(OutboundMessage(on.dm, piece, "k1"), since) == shown.id


async def test_B5_13_where_files_cannot_be_looked_up_one_whose_answers_are_lost_is_not_sent_for_ever(
    tmp_path: Path,
):
    (tmp_path / "f").write_bytes(b"text")
    async with fake() as slack, stage(slack, listening=False) as on:
        piece, since = on.channel.render("here")[0], datetime.now(UTC)
        slack.methods.forgotten = {"files.info"}
        slack.fail("files.completeUploadExternal", Fault("lost", times=1000))
        for _ in range(5):
            with pytest.raises(DeliveryUnknown):
                await on.channel.send(
                    OutboundMessage(on.dm, piece, "k1", file=tmp_path / "f", name="f.txt")
                )
            assert await on.channel.find(OutboundMessage(on.dm, piece, "k1"), since) == ""
        with pytest.raises(Rejected, match="may have arrived"):
            await on.channel.send(
                OutboundMessage(on.dm, piece, "k1", file=tmp_path / "f", name="f.txt")
            )
        assert len(slack.shown(on.dm.chat)) == 5
