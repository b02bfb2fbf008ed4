"""What a person sees in a message, the model is shown, through the real daemon: cards, forwards, replies and roots (A14)."""

from pathlib import Path

import pytest

from tests.contract.seen import ASKED, SAID, SIGHTS
from tests.e2e.channels.stage import said_last, stage
from tests.fakes.openai import by, says

SHOWN = {
    "a forward": "[I pass on a message; {author} wrote it]\n",
    "a forward with a comment": f"{ASKED}\n\n[I pass on a message; {{author}} wrote it]\n",
    "an answer to another": f"{ASKED}\n\n[this answers a message that {{author}} wrote]\n",
    "the root of a thread": f"{ASKED}\n\n[this thread began with a message that {{author}} wrote]\n",
}
AUTHORS = {"discord": {"a forward": "somebody else", "a forward with a comment": "somebody else"}}


@pytest.mark.parametrize("name", SAID)
async def test_the_model_is_shown_what_the_person_sees(name: str, tmp_path: Path) -> None:
    async with stage(name, tmp_path) as it:
        asked: list[str] = []
        it.model.otherwise(by(lambda body: asked.append(said_last(body)) or says("seen")))
        await it.listening()
        for what, begins in SHOWN.items():
            if not callable(say := SAID[name][what]):
                continue
            count = len(asked)
            say(it.platform)
            await it.platform.until(lambda count=count: len(asked) > count)
            author = AUTHORS.get(name, {}).get(what, SIGHTS[what].author)
            assert asked[-1].startswith(begins.format(author=author)), asked[-1]
            assert all(word in asked[-1] for word in SIGHTS[what].seen), asked[-1]
