"""In a group the owner is not shown what is theirs alone; in a private chat they are, from the first message on (F10)."""

from pathlib import Path

import pytest

from tests.e2e.channels.stage import by_bot, stage
from tests.fakes.openai import calls, says
from tests.fakes.platform import OTHER, OWNER


@pytest.mark.parametrize(("name", "prefix"), [("telegram", "/"), ("slack", "!"), ("discord", "/")])
async def test_what_is_the_owners_alone_is_shown_in_their_private_chat_only(
    name: str, prefix: str, tmp_path: Path
) -> None:
    async with stage(name, tmp_path) as it:
        await it.listening()
        platform = it.platform
        private, group = platform.private(OWNER), platform.group(OWNER, OTHER)
        platform.say(OWNER, private, f"{prefix}rules")
        await platform.until(lambda: len(by_bot(platform, private)) == 1)
        assert "rule" in by_bot(platform, private)[0].text.casefold()
        assert "yours alone" not in by_bot(platform, private)[0].text
        for chat, is_shown in ((group, False), (private, True)):
            it.model.script(calls(("config_get", {"key": "agent.max_iterations"})), says("I looked."))
            seen = len(by_bot(platform, chat))
            text = "what is the limit?"
            platform.say(OWNER, chat, platform.mention(text) if chat == group else text)
            await platform.until(lambda chat=chat, seen=seen: len(by_bot(platform, chat)) > seen)
            told = str(it.model.requests[-1].last("tool")["content"])
            assert ("others read along here" not in told) == is_shown, told
