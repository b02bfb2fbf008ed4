"""A picture goes to a model that sees with the message that brought it; what is written in it is nobody's order (G1)."""

import base64
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PIL import Image
from pillow_heif import register_heif_opener

from tests.e2e.channels.stage import Stage, by_bot, stage
from tests.fakes.documents import make_scan
from tests.fakes.openai import Json, Step, by, calls, fails, says
from tests.fakes.platform import OWNER

register_heif_opener()
GPS = 0x8825
ENDED = "SELECT count(*) FROM turns WHERE ended_at IS NOT NULL"


def make_photo(kind: str = "JPEG", width: int = 4000, height: int = 2000) -> bytes:
    """Red, and it tells where it was made."""
    file, exif = io.BytesIO(), Image.Exif()
    exif.get_ifd(GPS)[1] = "N"
    options = {"exif": exif} if kind in ("JPEG", "PNG", "WEBP") else {}
    Image.new("RGB", (width, height), "red").save(file, kind, **options)
    return file.getvalue()


def list_pictures(body: Json) -> list[Image.Image]:
    """Of all messages."""
    parts = [
        part for one in body["messages"] if isinstance(one["content"], list) for part in one["content"]
    ]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    head = "data:image/jpeg;base64,"
    assert all(url.startswith(head) for url in urls)
    return [Image.open(io.BytesIO(base64.b64decode(url.removeprefix(head)))) for url in urls]


def is_red(picture: Image.Image) -> bool:
    """As far as a picture that was packed twice is what it was."""
    red, green, blue = picture.convert("RGB").getpixel((9, 9))  # type: ignore[misc, not-iterable]
    return red > 245 and green < 10 and blue < 10


def get_text(body: Json) -> str:
    """Of the latest message."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def see_nothing(body: Json) -> Step:
    """As a server whose model only reads."""
    words = "image input is not supported by this model"
    return fails(400, {"error": {"message": words}}) if list_pictures(body) else says("I read it.")


@asynccontextmanager
async def listening(name: str, place: Path) -> AsyncIterator[Stage]:
    async with stage(name, place) as it:
        await it.listening()
        yield it


async def send(it: Stage, *files: tuple[str, bytes], text: str = "What is this?") -> Json:
    """The first request that the message leads to."""
    asked, [(count,)] = it.model.count, it.table(ENDED)
    it.platform.say(OWNER, it.platform.private(OWNER), text, files=files)
    await it.until(ENDED, count + 1)
    return (await it.model.asked(asked + 1)).body


@pytest.mark.parametrize("name", ["telegram", "slack", "discord"])
async def test_g1_a_picture_is_shown_small_upright_and_without_its_place(
    name: str, tmp_path: Path
) -> None:
    async with listening(name, tmp_path) as it:
        kinds = ("JPEG", "PNG") if name == "telegram" else ("JPEG", "PNG", "WEBP", "GIF", "HEIF", "AVIF")
        files = [(f"a.{kind.lower()}", make_photo(kind)) for kind in kinds]
        body = await send(it, *files)
        pictures = list_pictures(body)
        assert [one.size for one in pictures] == [(1568, 784)] * len(files)
        assert all(is_red(one) for one in pictures)
        assert not any(one.getexif() or one.info.get("exif") for one in pictures)
        assert get_text(body).startswith("What is this?\n\n[file: inbox/")
        assert get_text(body).count("; shown beside this]") == len(files)
        [(label,)] = set(it.table("SELECT label FROM turns"))
        assert label == "untrusted"
        assert len(list_pictures(await send(it, text="And the colour?"))) == len(files)
        [(turn, *_)] = it.table("SELECT id FROM turns ORDER BY id LIMIT 1")
        kept = [one.name for one in (tmp_path / "home" / "files" / "inbox").rglob("*.*")]
        assert len(kept) == 2 * len(files) and all(one.startswith(f"{turn}-") for one in kept)


async def test_g1_a_picture_is_upright_as_the_camera_was_held(tmp_path: Path) -> None:
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.new("RGB", (100, 40), "blue").save(file, "JPEG", exif=exif)
    async with listening("telegram", tmp_path) as it:
        [picture] = list_pictures(await send(it, ("a.jpg", file.getvalue())))
        assert picture.size == (40, 100)


async def test_g1_a_model_that_does_not_see_is_told_so_and_so_is_the_person(tmp_path: Path) -> None:
    async with listening("telegram", tmp_path) as it:
        it.model.otherwise(by(see_nothing))
        await send(it, ("a.jpg", make_photo()))
        chat, platform = it.platform.private(OWNER), it.platform
        await platform.until(lambda: bool(by_bot(platform, chat)))
        said = by_bot(platform, chat)[-1].text
        assert "I read it." in said and "does not see pictures" in said
        told = get_text(it.model.requests[-1].body)
        assert told.endswith("[A picture is not shown: you do not see pictures. Say so if it matters.]")
        asked = it.model.count
        assert not list_pictures(await send(it, text="Go on"))
        assert it.model.count == asked + 1  # it is not tried again


async def test_g1_a_picture_that_cannot_be_shown_is_said_in_a_word(tmp_path: Path) -> None:
    huge = make_photo("PNG", 12_000, 10_000)
    wanted = {
        "huge.png": (huge, "it is not shown: it has 12000 x 10000 pixels]"),
        "half.jpg": (make_photo()[:60], "it is not shown: it is damaged, or of a kind"),
        "not.png": (b"\x89PNG\r\n\x1a\n" + bytes(100), "it is not shown: it is damaged"),
    }
    async with listening("telegram", tmp_path) as it:
        for name, (data, words) in wanted.items():
            body = await send(it, (name, data))
            assert words in get_text(body) and not list_pictures(body), (name, get_text(body))


async def test_g1_only_the_newest_pictures_of_a_conversation_are_sent(tmp_path: Path) -> None:
    async with listening("telegram", tmp_path) as it:
        for number in range(3):
            files = [(f"{number}{one}.png", make_photo("PNG", 40 + number, 40)) for one in range(3)]
            body = await send(it, *files)
        widths = [one.width for one in list_pictures(body)]
        assert widths == [40, 40, 41, 41, 41, 42, 42, 42]


@pytest.mark.parametrize(("pages", "told"), [(2, "they are shown"), (6, "the first 4 are shown")])
async def test_g1_the_first_pages_of_a_scan_are_shown(tmp_path: Path, pages: int, told: str) -> None:
    async with listening("telegram", tmp_path) as it:
        body = await send(it, ("scan.pdf", make_scan(pages)))
        assert f"{pages} pages without text: {told} beside this as pictures]" in get_text(body)
        assert [one.size for one in list_pictures(body)] == [(1176, 1568)] * min(pages, 4)
        assert all(is_red(one) for one in list_pictures(body))
        assert it.table("SELECT label FROM turns") == [("untrusted",)]


async def test_g1_a_scan_of_the_workspace_is_shown_by_read_file(tmp_path: Path) -> None:
    async with listening("telegram", tmp_path) as it:
        place = tmp_path / "home" / "workspace"
        place.mkdir(exist_ok=True)
        (place / "scan.pdf").write_bytes(make_scan(2))
        it.model.script(calls(("read_file", {"path": "scan.pdf"})), says("Red."))
        await send(it, text="What is in scan.pdf?")
        body = it.model.requests[-1].body
        assert "2 pages without text" in str(body) and len(list_pictures(body)) == 2


async def test_g1_what_is_written_in_a_picture_is_not_the_owners_word(tmp_path: Path) -> None:
    async with listening("telegram", tmp_path) as it:
        it.model.script(calls(("remember", {"fact": "My account is DE99"})), says("Done."))
        await send(it, ("a.jpg", make_photo()))
        assert "kept aside, not remembered" in get_text(it.model.requests[-1].body)


async def test_g1_a_picture_of_the_workspace_is_shown_by_read_file(tmp_path: Path) -> None:
    async with listening("telegram", tmp_path) as it:
        place = tmp_path / "home" / "workspace"
        place.mkdir(exist_ok=True)
        (place / "chart.png").write_bytes(make_photo("PNG", 3000, 900))
        (place / "half.jpg").write_bytes(make_photo()[:60])
        wanted = ("read_file", {"path": "chart.png"}), ("read_file", {"path": "half.jpg"})
        it.model.script(calls(*wanted), says("A red chart."))
        await send(it, text="What does chart.png show?")
        body = it.model.requests[-1].body
        results = [one["content"] for one in body["messages"] if one["role"] == "tool"]
        assert results[0] == "chart.png: a picture.\n[1 shown below]"
        assert results[1].startswith("half.jpg: a picture.\n[picture 1 is not shown: it is damaged")
        assert [one.size for one in list_pictures(body)] == [(1568, 470)]
        assert get_text(body) == "[The pictures of these results: read_file]"


def refuse(status: int, words: str) -> Callable[[Json], Step]:
    """What has pictures in it."""

    def step(body: Json) -> Step:
        refused = fails(status, {"error": {"message": words}})
        return refused if list_pictures(body) else says("I read it.")

    return step


async def test_g1_a_server_that_does_not_say_that_it_is_about_pictures_costs_no_history(
    tmp_path: Path,
) -> None:
    async with listening("telegram", tmp_path) as it:
        await send(it, text="The code is 4711.")
        it.model.otherwise(by(refuse(400, "'messages.2.content' : value must be a string")))
        await send(it, ("a.jpg", make_photo()))
        told = it.model.requests[-1].body
        assert not list_pictures(told) and "The code is 4711." in str(told["messages"])


async def test_g1_one_picture_that_is_refused_blinds_nobody_for_the_next(tmp_path: Path) -> None:
    async with listening("telegram", tmp_path) as it:
        it.model.otherwise(by(refuse(400, "Could not process image")))
        await send(it, ("a.jpg", make_photo()))
        it.model.otherwise(says("A red one."))
        assert len(list_pictures(await send(it, ("b.jpg", make_photo("JPEG", 50, 50))))) == 2
        assert len(list_pictures(await send(it, text="Go on"))) == 2


async def test_g1_a_limit_of_a_model_that_is_called_vision_is_no_blindness(tmp_path: Path) -> None:
    async with listening("telegram", tmp_path) as it:
        words = "Rate limit reached for model llama-vision-preview"
        limited = fails(429, {"error": {"message": words}}, {"Retry-After": "0"})
        it.model.script(limited, says("A red one."))
        await send(it, ("a.jpg", make_photo()))
        assert [len(list_pictures(one.body)) for one in it.model.requests] == [1, 1]


async def test_g1_files_of_one_message_never_take_each_others_place(tmp_path: Path) -> None:
    long, place = "x" * 90 + ".png", tmp_path / "home" / "files" / "inbox"
    async with listening("slack", tmp_path) as it:
        sizes = (50, 60, 70)
        files = [(long, make_photo("PNG", one, one)) for one in sizes]
        files += [("a.png", make_photo("PNG", 80, 80)), ("a.png~", make_photo("PNG", 90, 90))]
        body = await send(it, *files)
        assert [one.width for one in list_pictures(body)] == [50, 60, 70, 80, 90]
        assert len([*place.rglob("*.png*")]) == 10
