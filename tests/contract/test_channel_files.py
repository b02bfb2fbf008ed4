"""Files, both ways, on every channel alike (A14)."""

import asyncio
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from channels.base import DeliveryUnknown, Rejected, RetryLater, Revoked
from channels.message import Attachment, OutboundMessage
from tests.contract.channels import Stage, ended
from tests.fakes.platform import Fault

CONTENT = bytes(range(256)) * 1000
NAME = "report für ann.txt"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    kept = tmp_path / "kept"
    kept.write_bytes(CONTENT)
    return kept


async def came_with(stage: Stage, *files: tuple[str, bytes]) -> list[Attachment]:
    """What ann's message brings."""
    async with stage.listening():
        stage.platform.say("ann", stage.ann.chat, "see this", files=files)
        await stage.host.until(
            lambda: sum(len(message.attachments) for message in stage.host.messages) >= len(files)
        )
    return [attachment for message in stage.host.messages for attachment in message.attachments]


async def test_a14_a_file_that_came_with_a_message_is_fetched_byte_for_byte(stage: Stage):
    (attachment,) = await came_with(stage, ("notes.txt", CONTENT))
    into = BytesIO()
    await stage.channel.download(attachment, into)
    assert into.getvalue() == CONTENT
    assert (attachment.name, attachment.size) == ("notes.txt", len(CONTENT))
    assert "see this" in stage.host.texts


async def test_a14_several_files_come_and_each_is_its_own(stage: Stage):
    files = [(f"{number}.txt", f"content {number}".encode()) for number in range(3)]
    fetched = {}
    for attachment in await came_with(stage, *files):
        into = BytesIO()
        await stage.channel.download(attachment, into)
        fetched[attachment.name] = into.getvalue()
    assert fetched == dict(files)


async def test_a14_files_that_are_sent_at_once_are_one_message(stage: Stage):
    assert (
        len(await came_with(stage, ("one.png", b"1"), ("two.png", b"22"), ("three.png", b"333")))
        == 3
    )
    [said] = stage.host.messages
    assert (said.text, [file.size for file in said.attachments]) == ("see this", [1, 2, 3])


async def test_a_file_that_is_too_big_is_refused_before_it_is_asked_for(stage: Stage):
    (attachment,) = await came_with(stage, ("notes.txt", CONTENT))
    before, into = len(stage.platform.calls.made), BytesIO()
    with pytest.raises(Rejected):
        await stage.channel.download(
            replace(attachment, size=stage.channel.capabilities.max_download + 1), into
        )
    assert len(stage.platform.calls.made) == before and not into.getvalue()


async def test_a_file_that_lies_about_its_size_is_cut_off(stage: Stage):
    most = stage.channel.capabilities.max_download
    (attachment,) = await came_with(stage, ("notes.bin", b"x" * (most + 1)))
    into = BytesIO()
    with pytest.raises(Rejected):
        await stage.channel.download(replace(attachment, size=0), into)
    assert len(into.getvalue()) <= most


async def test_a_file_is_later_while_the_network_is_away_and_fetched_when_it_is_back(stage: Stage):
    (attachment,) = await came_with(stage, ("notes.txt", CONTENT))
    stage.platform.cut()
    outcome = await ended(stage.channel.download(attachment, BytesIO()))
    assert isinstance(outcome, RetryLater)
    stage.tells_nothing(outcome)
    await stage.platform.mend()
    into = BytesIO()
    await stage.channel.download(attachment, into)
    assert into.getvalue() == CONTENT


@pytest.mark.parametrize(
    "ref",
    ["", "nothing", "http://127.0.0.1:1/secret", "file:///etc/passwd", "http://[bad", "../../x"],
)
async def test_a_file_that_is_elsewhere_or_nowhere_is_not_fetched(stage: Stage, ref: str):
    into = BytesIO()
    outcome = await ended(
        stage.channel.download(Attachment("document", "x", "text/plain", 3, ref), into)
    )
    assert isinstance(outcome, Rejected | RetryLater) and not into.getvalue()


async def test_a14_a_file_is_sent_byte_for_byte_with_its_name_and_words(stage: Stage, file: Path):
    sent = await stage.channel.send(
        OutboundMessage(stage.ann, stage.piece("here it is"), "k1", file=file, name=NAME)
    )
    (shown,) = stage.ours(stage.ann)
    assert (shown.id, shown.text) == (sent, "here it is")
    ((name, content),) = shown.files
    assert content == CONTENT
    assert name.endswith(".txt") and "report" in name


async def test_a14_a_file_goes_into_a_thread_and_needs_no_words(stage: Stage, file: Path):
    where = await stage.thread()
    await stage.channel.send(
        OutboundMessage(where, stage.channel.render("")[0], "k1", file=file, name="x.txt")
    )
    (shown,) = stage.ours(where)
    assert shown.files[0][1] == CONTENT


async def test_a_file_that_is_too_big_to_send_is_refused_before_it_is_read(
    stage: Stage, tmp_path: Path
):
    huge = tmp_path / "huge"
    with huge.open("wb") as sparse:
        sparse.truncate(stage.channel.capabilities.max_upload + 1)
    with pytest.raises(Rejected, match=r"huge\.bin"):
        await stage.channel.send(
            OutboundMessage(stage.ann, stage.piece("huge"), "k1", file=huge, name="huge.bin")
        )
    assert not stage.platform.calls.made


async def test_a_file_that_is_gone_is_refused(stage: Stage, tmp_path: Path):
    with pytest.raises(Rejected, match=r"notes\.txt cannot be read"):
        await stage.channel.send(
            OutboundMessage(
                stage.ann, stage.piece("here it is"), "k1", file=tmp_path / "gone", name="notes.txt"
            )
        )
    assert not stage.platform.calls.made


async def test_a_file_whose_answer_was_lost_is_unclear_and_stands_there_once(
    stage: Stage, file: Path
):
    stage.platform.fail("*", Fault("lost"))
    outcome = await ended(
        stage.channel.send(
            OutboundMessage(stage.ann, stage.piece("here it is"), "k1", file=file, name="x.txt")
        )
    )
    assert isinstance(outcome, DeliveryUnknown)
    stage.tells_nothing(outcome)
    if stage.channel.capabilities.idempotent:
        await stage.channel.send(
            OutboundMessage(stage.ann, stage.piece("here it is"), "k1", file=file, name="x.txt")
        )
    assert len(stage.ours(stage.ann)) == 1


async def test_without_a_good_token_files_are_neither_sent_nor_given(stage: Stage, file: Path):
    (attachment,) = await came_with(stage, ("notes.txt", CONTENT))
    stage.platform.revoke()
    assert isinstance(
        await ended(
            stage.channel.send(
                OutboundMessage(stage.ann, stage.piece("x"), "k1", file=file, name="x.txt")
            )
        ),
        Revoked,
    )
    async with asyncio.timeout(10):
        await ended(stage.channel.download(attachment, BytesIO()))
