"""Messages in, runs out, over HTTP (http.md). One daemon serves all of these tests."""

import asyncio
import json

import pytest
from aiohttp import ClientSession

from tests.fakes.daemon_process import Daemon
from tests.fakes.openai import calls, gate, says
from tests.fakes.wordy_model import Script, Turnstile, shell

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_message_gets_a_turn_and_the_turn_a_reply(daemon: Daemon, script: Script) -> None:
    turn = await daemon.begin(script.on("reply", says("hello there")), "first")
    await daemon.until(turn, "run.completed")
    run = await daemon.run(turn)
    assert (run["turn"], run["session"], run["state"], run["stop_reason"]) == (
        turn,
        "web:first",
        "ended",
        "done",
    )
    assert (run["reply"], run["label"], run["iterations"], run["calls"]) == (
        "hello there",
        "trusted",
        0,
        [],
    )
    assert run["usage"] == {"input_tokens": 10, "output_tokens": 5, "cached_tokens": 0, "usd": None}


async def test_wait_answers_with_the_run_when_it_has_ended(daemon: Daemon, script: Script) -> None:
    run = await daemon.ask(
        script.on("waited", calls(("current_time", {})), says("it is late")), "wait"
    )
    assert (run["state"], run["reply"], run["iterations"]) == ("ended", "it is late", 1)
    (call,) = await daemon.calls_of(str(run["turn"]))
    assert (call["tool"], call["decision"], call["effect"], call["is_error"]) == (
        "current_time",
        "allow",
        "read",
        False,
    )


async def test_wait_goes_on_while_the_run_is_suspended(daemon: Daemon, script: Script) -> None:
    step = Turnstile(shell("echo hi; rm -f x"))
    waiting = asyncio.ensure_future(
        daemon.ask(script.on("suspended", step, says("rejected then")), "suspend")
    )
    await step.reached.wait()
    step.open.set()
    (line,) = await daemon.listed("/v1/runs", session="web:suspend")
    question = await daemon.until(str(line["turn"]), "approval.asked")
    await daemon.until(str(line["turn"]), "run.suspended")
    assert not waiting.done() and (await daemon.run(str(line["turn"])))["state"] == "suspended"
    await daemon.post(
        f"/v1/runs/{line['turn']}/reject", call_id=question.data["call_id"], reason="no"
    )
    assert (await waiting)["reply"] == "rejected then"


async def test_a_client_that_goes_away_does_not_stop_the_run(
    daemon: Daemon, script: Script
) -> None:
    step = Turnstile(says("still done"))
    waiting = asyncio.ensure_future(daemon.ask(script.on("abandoned", step), "abandon"))
    await step.reached.wait()
    (line,) = await daemon.listed("/v1/runs", session="web:abandon")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    step.open.set()
    await daemon.until(str(line["turn"]), "run.completed")
    assert (await daemon.run(str(line["turn"])))["reply"] == "still done"


async def test_the_same_client_id_gets_the_same_answer_and_one_run(
    daemon: Daemon, script: Script
) -> None:
    body = {
        "session": "twice",
        "text": script.on("twice", says("once"), says("again")),
        "client_id": "c-1",
    }
    first = await daemon.post("/v1/messages", 202, **body)
    again = await daemon.post("/v1/messages", 202, **body)
    await daemon.until(str(first["turn"]), "run.completed")
    later = await daemon.post("/v1/messages?wait=1", **body)
    assert first == again and (later["turn"], later["reply"]) == (first["turn"], "once")
    runs = await daemon.listed("/v1/sessions/web:twice/turns")
    assert len(runs) == 1


@pytest.mark.parametrize("first", ["one thing", "/help", "/whoami"])
async def test_an_id_that_was_used_for_another_message_is_told_and_nothing_is_lost_silently(
    daemon: Daemon, first: str
) -> None:
    session, headers = f"reused{first.strip('/')}", {"Idempotency-Key": "key 1"}
    url = f"{daemon.url}/v1/messages"
    longer = f"{first} and more"  # the first word alone is no proof
    for text, status in ((first, 0), ("another thing", 409), ("/status", 409), (longer, 409), (first, 0)):
        body = {"session": session, "text": text}
        async with daemon.http.post(url, json=body, headers=headers) as answer:
            assert answer.status == (status or answer.status) and answer.status in (200, 202, 409)
            told = await answer.json()
            assert status == 0 or (told["error"]["type"] == "id_reused" and "new id" in str(told))
    async with daemon.http.post(url, json={"session": session, "text": "another thing"}) as answer:
        told = await answer.json()
        assert answer.status == 202 and (told.get("turn") or told.get("steered")), told


async def test_a_repeat_chooses_no_agent(daemon: Daemon) -> None:
    body = {"session": "chosen-once", "text": "hi", "client_id": "same"}
    first = await daemon.post("/v1/messages", 202, **body)
    for text, status in (("hi", 202), ("another", 409)):
        more = {**body, "text": text, "agent": "nobody"}  # there is none: it would be refused
        async with daemon.http.post("/v1/messages", json=more) as answer:
            assert answer.status == status, await answer.text()
    assert (await daemon.post("/v1/messages", 202, **body)) == first


async def test_a_client_id_counts_for_its_session_only(daemon: Daemon) -> None:
    turns = [
        (await daemon.post("/v1/messages", 202, session=name, text="hi", client_id="same"))["turn"]
        for name in ("s1", "s2")
    ]
    assert len(set(turns)) == 2


async def test_a_session_may_be_named_with_its_prefix(daemon: Daemon) -> None:
    assert (
        (await daemon.ask("hi", "web:named"))["session"]
        == (await daemon.ask("hi", "named"))["session"]
        == "web:named"
    )
    assert (await daemon.post("/v1/messages?wait=1", text="hi"))["session"] == "web:default"


async def test_a_command_is_answered_at_once(daemon: Daemon) -> None:
    answered = await daemon.post(
        "/v1/messages", 200, session="commands", text="/help", client_id="h1"
    )
    assert answered["command"] == "help" and "/stop" in str(answered["reply"])
    assert (
        await daemon.post("/v1/messages", 200, session="commands", text="/help", client_id="h1")
        == answered
    )


async def test_text_sent_mid_turn_names_the_run_it_steers(daemon: Daemon, script: Script) -> None:
    """E7."""
    go_on = asyncio.Event()
    script.on("steered", gate(go_on, calls(("current_time", {}))))
    script.on("blue", says("blue it is"))
    turn = await daemon.begin("steered", "steer")
    await daemon.until(turn, "cycle.start")
    assert await daemon.post("/v1/messages", 202, session="steer", text="make it blue") == {
        "steered": turn
    }
    go_on.set()
    names = [sent.name async for sent in daemon.stream(turn)]
    assert "steered" in names and (await daemon.run(turn))["reply"] == "blue it is"


async def test_runs_and_sessions_are_listed_newest_first(daemon: Daemon) -> None:
    turns = [(await daemon.ask(f"hi {n}", "listed"))["turn"] for n in range(3)]
    lines = await daemon.listed("/v1/runs", session="web:listed", limit="2")
    assert [line["turn"] for line in lines] == turns[:0:-1]
    assert set(lines[0]) == {
        "turn",
        "session",
        "state",
        "stop_reason",
        "started",
        "ended",
        "agent",
        "parent",
        "text",
        "usd",
    }
    sessions = await daemon.listed("/v1/sessions")
    assert sessions[0]["id"] == "web:listed" and sessions[0]["label"] == "trusted"


async def test_what_was_said_in_a_session_is_listed_with_its_answers(daemon: Daemon) -> None:
    texts = ["told first", "told next"]
    for text in texts:
        await daemon.ask(text, "told")
    told = await daemon.listed("/v1/sessions/web:told/messages")
    assert sorted((str(turn["said"]), turn["reply"]) for turn in told) == [
        (str([{"sender": "owner", "text": text, "label": "trusted"}]), "ok") for text in texts
    ]


async def test_the_transcript_is_the_journal_itself(daemon: Daemon) -> None:
    turn = (await daemon.ask("hi", "transcript"))["turn"]
    lines = await daemon.listed(f"/v1/runs/{turn}/transcript")
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert [line["kind"] for line in lines] == [
        "UserSaid",
        "ModelAsked",
        "ModelReplied",
        "TurnEnded",
    ]


async def test_a_message_may_say_which_agent_answers_and_an_unknown_one_is_a_400(
    daemon: Daemon, script: Script
) -> None:
    """B1: nothing is taken in then."""
    refused = await daemon.post("/v1/messages", 400, session="chosen", text="hi", agent="nobody")
    assert "there is no agent 'nobody'; there are: default" in str(refused["error"])
    assert await daemon.listed("/v1/runs", session="web:chosen") == []
    run = await daemon.post(
        "/v1/messages?wait=1",
        session="chosen",
        text=script.on("chosen", says("mine")),
        agent="default",
    )
    assert run["reply"] == "mine"


async def test_a_session_s_agent_is_set_where_it_may_be_written_to(daemon: Daemon) -> None:
    """B1"""
    assert await daemon.post("/v1/sessions/web:set/agent", agent="default") == {
        "session": "web:set",
        "agent": "default",
    }
    await daemon.post("/v1/sessions/web:set/agent", 400, agent="nobody")
    await daemon.post("/v1/sessions/telegram:1/agent", 404, agent="default")


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        ("application/json", "utf-8-sig"),
        ("application/json", "utf-16"),
        ("application/json; charset=utf-16", "utf-16"),
        ("application/json; charset=ISO-8859-1", "latin-1"),
        ("text/plain", "utf-8"),
    ],
)
async def test_a_body_is_read_in_the_charset_that_it_names_or_begins_with(
    daemon: Daemon, script: Script, kind: str, encoding: str
) -> None:
    said = script.on(f"caf\u00e9-{encoding}-{len(kind)}", says("well read"))
    body = json.dumps({"session": "charset", "text": said}, ensure_ascii=False).encode(encoding)
    headers = {"Content-Type": kind}
    async with daemon.http.post("/v1/messages?wait=1", data=body, headers=headers) as answer:
        assert (await answer.json())["reply"] == "well read"


async def test_half_an_emoji_of_a_client_does_not_cost_the_message(daemon: Daemon) -> None:
    body = json.dumps({"session": "half", "text": "cut \ud83d \U0001f600 \\ud83d"})
    headers = {"Content-Type": "application/json"}
    async with daemon.http.post("/v1/messages?wait=1", data=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
    run = (await daemon.listed("/v1/runs", session="web:half"))[0]
    assert run["text"] == "cut \ufffd \U0001f600 \\ud83d"


@pytest.mark.parametrize("path", ["/v1/messages/", "//v1//messages"])
async def test_an_address_with_a_slash_too_many_names_the_right_one(
    daemon: Daemon, path: str
) -> None:
    url = f"{daemon.url}{path}"
    async with daemon.http.post(url, json={"text": "lost"}) as answer:
        assert answer.status == 404 and "; /v1/messages is one" in await answer.text()
    async with daemon.http.post(f"{daemon.url}/v1/nothing/", json={}) as answer:
        assert answer.status == 404 and "is one" not in await answer.text()


@pytest.mark.parametrize("charset", ["punycode", "hex", "idna", "x-nothing"])
async def test_a_charset_that_is_none_is_refused_at_once(daemon: Daemon, charset: str) -> None:
    """Some of what Python can decode takes minutes for a megabyte."""
    headers = {"Content-Type": f"application/json; charset={charset}"}
    body = b"a" * 400_000 + b"-" + b"a" * 400_000
    async with daemon.http.post("/v1/messages", data=body, headers=headers) as answer:
        assert answer.status == 400 and f"charset '{charset}' is not known" in await answer.text()


async def test_a_body_that_is_no_json_says_what_is_expected(daemon: Daemon) -> None:
    for body in (b"session=s&text=hi", b"", "{'text': 'caf\u00e9'}".encode("latin-1")):
        async with daemon.http.post("/v1/messages", data=body) as answer:
            assert answer.status == 400 and "expected a JSON object in UTF-8" in await answer.text()


async def test_the_same_idempotency_key_gets_the_same_answer_and_one_run(
    daemon: Daemon, script: Script
) -> None:
    said, turns = script.on("idempotent", says("once")), list[str]()
    for _ in range(2):
        async with daemon.http.post(
            "/v1/messages?wait=1",
            json={"session": "keyed", "text": said},
            headers={"Idempotency-Key": "a-1"},
        ) as answer:
            turns.append((await answer.json())["turn"])
    assert turns[0] == turns[1]
    assert len(await daemon.listed("/v1/runs", session="web:keyed")) == 1


async def test_a_watcher_may_ask_for_the_head_of_health(daemon: Daemon) -> None:
    async with ClientSession(daemon.url) as http, http.head("/health") as answer:
        assert answer.status == 200


async def test_a_field_of_another_name_is_told_the_names_there_are(daemon: Daemon) -> None:
    async with daemon.http.post("/v1/messages", json={"message": "hi"}) as answer:
        told = await answer.text()
    assert answer.status == 400
    assert "message: is not known here; the fields are text, client_id" in told
