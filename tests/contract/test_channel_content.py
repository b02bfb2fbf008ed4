"""What a person sees in a message, the daemon is told, on every platform in the same form (A14)."""

import pytest

from tests.contract.channels import Stage
from tests.contract.seen import NAMELESS, SAID, SHARED, SIGHTS

CASES = [(name, what) for name, said in SAID.items() for what, say in said.items() if callable(say)]


@pytest.mark.parametrize("name", SAID)
def test_each_platform_has_each_of_it_or_a_reason(name: str):
    assert list(SAID[name]) == list(SIGHTS)
    assert all(callable(say) or len(say) > 10 for say in SAID[name].values())


@pytest.mark.parametrize(("stage", "what"), CASES, indirect=["stage"])
async def test_a14_what_a_person_sees_the_daemon_is_told(stage: Stage, what: str):
    sight, say = SIGHTS[what], SAID[stage.kind.name][what]
    author = "" if (stage.kind.name, what) in NAMELESS else sight.author
    async with stage.listening():
        ours = await stage.send("I wrote this")
        assert callable(say)
        say(stage.platform)
        await stage.host.until(lambda: bool(stage.host.messages))
    (said,) = stage.host.messages
    texts, references = [said.text], {one.kind: one for one in said.references}
    assert list(references) == ([sight.kind] if sight.kind else [])
    if sight.kind:
        reference = references[sight.kind]
        texts.append(reference.text)
        assert reference.by == sight.by and reference.author in (author, "aidaemon", "House")
        assert sight.by != "assistant" or reference.message_id == ours
    is_shared = (stage.kind.name, what) in SHARED
    assert (said.addressed, said.forwarded) == (True, sight.forwarded or is_shared)
    assert said.author == (author if sight.forwarded else "")
    assert all(any(word in text for text in texts) for word in sight.seen), texts
    assert not sight.others or all(
        any(word in part for part in said.data) for word in sight.seen[:2]
    )
    assert tuple((one.kind, one.name, one.size) for one in said.attachments) == sight.files
