"""A picture is sent in each provider's own form, beside its text (G1)."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon.core.messages import FetchedFiles, Picture
from daemon.core.rows import InboxRow
from daemon.core.trust import Label
from daemon.sessions.inbox import InboxMessage
from tests.fakes import anthropic, gemini, openai, responses
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, Json

JPEG = b"\xff\xd8\xff a picture"
DATA = base64.b64encode(JPEG).decode()
PATH = "inbox/2026-11-27/t-a.jpg"
TEXT = "Look\n\n[file: a.jpg]"


def see_openai(body: Json) -> object:
    return body["messages"][-1]["content"]


def see_anthropic(body: Json) -> object:
    return [{k: v for k, v in one.items() if k != "cache_control"} for one in body["messages"][-1]["content"]]


def see_gemini(body: Json) -> object:
    return body["contents"][-1]["parts"]


def see_responses(body: Json) -> object:
    return body["input"][-1]["content"]


FORMS: dict[str, tuple[type[FakeOpenAI], Any, Callable[[Json], object], object]] = {
    "openai": (
        FakeOpenAI,
        openai.says("Yes."),
        see_openai,
        [
            {"type": "text", "text": TEXT},
            {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{DATA}"}},
        ],
    ),
    "anthropic": (
        anthropic.FakeAnthropic,
        anthropic.says("Yes."),
        see_anthropic,
        [
            {"type": "text", "text": TEXT},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": DATA},
            },
        ],
    ),
    "gemini": (
        gemini.FakeGemini,
        gemini.says("Yes."),
        see_gemini,
        [{"text": TEXT}, {"inlineData": {"mimeType": "image/jpeg", "data": DATA}}],
    ),
    "responses": (
        responses.FakeResponses,
        responses.says("Yes."),
        see_responses,
        [
            {"type": "input_text", "text": TEXT},
            {"type": "input_image", "image_url": f"data:image/jpeg;base64,{DATA}"},
        ],
    ),
}


async def fetch(row: InboxRow) -> FetchedFiles:
    return FetchedFiles("[file: a.jpg]", says=True, pictures=(Picture(PATH, "image/jpeg"),))


async def bring(it: Living) -> str:
    """A message with a picture; its turn."""
    place = it.paths.inbox.parent / PATH
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(JPEG)
    it.house.sessions.fetch = fetch
    message = InboxMessage(
        "web", "test", SESSION, "owner", "k1", "Look", Label.TRUSTED, role="owner", attachments="[{}]"
    )
    return (await it.house.client.inbox.accept(message)).row.turn


@pytest.mark.parametrize("name", FORMS)
async def test_g1_each_provider_gets_the_picture_in_its_own_form(name: str, tmp_path: Path) -> None:
    make, answer, see, wanted = FORMS[name]
    kind = {"api": "responses"} if name == "responses" else {"kind": name}
    provider = {**kind, "api_key": "k", "models": {"primary": "scripted"}}
    async with make() as model, living(tmp_path, model, {"provider": provider}) as it:
        model.otherwise(answer)
        assert (await it.settled(await bring(it))).reply == "Yes."
        assert see(model.requests[-1].body) == wanted
        assert await it.house.store.read(lambda tx: DATA not in str(tx.list_all_turns(5)))
        events = "".join(str(one) for one in await it.events((await it.house.client.list_runs())[0].turn))
        assert PATH in events and DATA not in events


async def test_g1_a_picture_that_was_forgotten_is_left_out(tmp_path: Path) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.otherwise(openai.says("Yes."))
        await it.settled(await bring(it))
        (it.paths.inbox.parent / PATH).unlink()
        it.house.sessions.reload_histories()
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.otherwise(openai.says("Yes."))
        await it.ask("And now?")
        assert DATA not in str(model.requests[-1].body) and "Look" in str(model.requests[-1].body)
