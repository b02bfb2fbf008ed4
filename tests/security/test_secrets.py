"""Twenty planted secrets, a daemon that meets them everywhere, and not one of them left behind (issue 4, "Measure it")."""

from pathlib import Path

from daemon.settings.secrets import SecretStore
from tests.fakes.openai import calls, says
from tests.security.planted import HOW_MANY, every_way, meeting, traces, ways


async def test_20_planted_secrets_leave_no_trace(tmp_path: Path):
    left = await traces(tmp_path / "home")
    assert (left.running, left.ended) == ([], [])
    assert left.taken_out == HOW_MANY and min(left.places) > 10


async def test_a_secret_that_is_set_meanwhile_leaves_no_trace_either(tmp_path: Path):
    late = "late-secret-1a2b3c4d5e"
    async with meeting(tmp_path / "home") as at:
        SecretStore(at.daemon.home / "secrets.toml").put("late", late)
        (at.daemon.home / "workspace" / "leak.txt").write_text(every_way(late))
        at.model.script(calls(("read_file", {"path": "leak.txt"})), says(f"it is {late}"))
        await at.ask(f"what is {late}?")
        found = [
            place
            for place, data in at.left().items()
            if any(way.encode() in data for way in ways(late))
        ]
        assert found == [] and "[secret late]" in "\n".join(at.heard)


async def test_handles_reach_the_model_as_they_are(tmp_path: Path):
    async with meeting(tmp_path / "home") as at:
        at.model.script(says("I would send {{secret:canary1}}"))
        await at.ask("use {{secret:canary1}}")
        assert "use {{secret:canary1}}" in at.model.requests[0].last("user")["content"]
        assert "I would send {{secret:canary1}}" in "\n".join(at.heard)
