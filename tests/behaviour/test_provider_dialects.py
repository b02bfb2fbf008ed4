"""What servers of OpenAI's dialect add to it or leave out: no part of an answer is lost, or read twice."""

import asyncio
import json

import pytest
from aiohttp import web

from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.messages import Message, MessageRole, ModelReply, ModelRequest, ToolSpec
from daemon.providers.base import CUT_THOUGHT
from tests.behaviour.test_provider_oddities import END, pieces, sends
from tests.behaviour.test_provider_oddities import answered as answered_by
from tests.fakes.openai import Exchange, Json, Step

PATH: Json = {"type": "object", "properties": {"path": {"type": "string"}}}
ASK = ModelRequest(
    (Message(MessageRole.USER, "hi"),), tools=(ToolSpec("read_file", "Reads a file", PATH),)
)
X, Y = '{"path":"x"}', '{"path":"y"}'


async def answered(step: Step, *, stream: bool = False) -> ModelReply:
    return await answered_by(step, stream=stream, asked=ASK)


def whole(*messages: Json, finish: str = "stop", **more: object) -> Step:
    choices = [{"message": one, "finish_reason": finish} for one in messages]
    return sends("application/json", json.dumps({"choices": choices, **more}).encode())


def stream_of(*choices: Json) -> Step:
    chunks = (json.dumps({"choices": [one]}).encode() for one in choices)
    return sends("text/event-stream", b"".join(b"data: %s\n\n" % one for one in chunks))


def calls_in(reply: ModelReply) -> list[tuple[str, str]]:
    return [(one.name, one.arguments) for one in reply.calls]


def asks(arguments: object, **more: object) -> Json:
    return {"function": {"name": "read_file", "arguments": arguments}, **more}


STREAMS = {
    "each chunk has the message so far (Perplexity)": [
        {"delta": {"content": "Hel"}, "message": {"content": "Hel"}},
        {"delta": {"content": "lo"}, "message": {"content": "Hello"}},
        {
            "delta": {"role": "assistant", "content": ""},
            "message": {"content": "Hello"},
            "finish_reason": "stop",
        },
    ],
    "the last chunk has the whole message": [
        {"delta": {"content": "Hel"}},
        {"delta": {"content": "lo"}},
        {"message": {"content": "Hello"}, "finish_reason": "stop"},
    ],
    "pieces called messages": [
        {"message": {"content": "Hel"}},
        {"message": {"content": "lo"}, "finish_reason": "stop"},
    ],
}


@pytest.mark.parametrize("choices", STREAMS.values(), ids=STREAMS.keys())
async def test_a_text_that_comes_as_pieces_and_whole_is_read_once(choices: list[Json]) -> None:
    assert (await answered(stream_of(*choices), stream=True)).text == "Hello"


CALL = asks(X, id="a")
WHOLE = {
    "text and call in two choices (Copilot)": [{"content": "I look."}, {"tool_calls": [CALL]}],
    "the older form": [
        {"content": None, "function_call": {"name": "read_file", "arguments": X}}
    ],
    "a call without its function (Workers AI)": [
        {"tool_calls": [{"name": "read_file", "arguments": {"path": "x"}}]}
    ],
    "arguments as a text in a text": [{"tool_calls": [asks(json.dumps(X), id="a")]}],
}  # fmt: skip


@pytest.mark.parametrize("messages", WHOLE.values(), ids=WHOLE.keys())
async def test_a_call_is_found_wherever_it_stands(messages: list[Json]) -> None:
    [(name, arguments)] = calls_in(await answered(whole(*messages)))
    assert (name, json.loads(arguments)) == ("read_file", {"path": "x"})


async def test_a_call_of_the_older_form_comes_in_pieces() -> None:
    parts = ({"name": "read_file", "arguments": ""}, {"arguments": '{"path":'}, {"arguments": '"x"}'})
    body = pieces(*({"function_call": part} for part in parts), end=END)
    assert calls_in(await answered(sends("text/event-stream", body))) == [("read_file", X)]


PIECES = {
    "an empty object first": ([asks("{}", id="a", index=0), {"index": 0, "function": {"arguments": X}}], [X]),
    "the whole once more": ([asks(X, id="a", index=0), {"index": 0, "function": {"arguments": X}}], [X]),
    "a number for each piece": (
        [asks("", id="a", index=0), {"id": "a", "index": 1, "function": {"arguments": X}}], [X],
    ),
    "two calls by turns, by id": (
        [asks("", id="a"), asks("", id="b"), {"id": "a", "function": {"arguments": X}},
         {"id": "b", "function": {"arguments": Y}}], [X, Y],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "right"), PIECES.values(), ids=PIECES.keys())
async def test_the_pieces_of_a_call_become_its_arguments(
    parts: list[Json], right: list[str]
) -> None:
    body = pieces(*({"tool_calls": [part]} for part in parts))
    reply = await answered(sends("text/event-stream", body))
    assert calls_in(reply) == [("read_file", one) for one in right]


async def test_calls_that_a_whole_message_repeats_are_made_once() -> None:
    parts = [{"delta": {"tool_calls": [CALL | {"index": 0}]}}, {"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}]  # fmt: skip
    assert calls_in(await answered(stream_of(*parts))) == [("read_file", X)]


async def test_a_part_that_is_a_thought_is_not_shown() -> None:
    content = [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "Hello"}]
    assert (await answered(whole({"content": content}))).text == "Hello"


async def test_an_answer_that_the_server_took_for_a_thought_is_shown() -> None:
    reply = await answered(whole({"content": "", "reasoning_content": "It is 4."}))
    assert reply.text == "It is 4."
    assert reply.native is None or '"content":""' not in reply.native.blocks


async def test_a_thought_that_was_cut_apart_from_the_text_says_so() -> None:
    reply = await answered(whole({"content": "", "reasoning_content": "I thi"}, finish="length"))
    assert reply.text == CUT_THOUGHT


async def _stay(x: Exchange) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(x.request)
    await response.write(pieces({"content": "hello"}))
    await asyncio.sleep(30)
    return response


async def _break_off(x: Exchange) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    response.enable_chunked_encoding()
    await response.prepare(x.request)
    await response.write(pieces({"content": "hello"}))
    await asyncio.sleep(0.1)
    assert x.request.transport
    x.request.transport.close()
    return response


@pytest.mark.parametrize("step", [_stay, _break_off])
async def test_a_reply_that_has_ended_counts_however_its_connection_ends(step: Step) -> None:
    async with asyncio.timeout(5):
        assert (await answered_by(step, stream=True, asked=ASK, after_s=0.5)).text == "hello"


@pytest.mark.parametrize("finish", ["insufficient_system_resource", "network_error", "abort"])
async def test_half_an_answer_of_a_server_in_trouble_is_no_answer(finish: str) -> None:
    with pytest.raises(ProviderError) as caught:
        await answered(whole({"content": "Half a sen"}, finish=finish))
    assert caught.value.kind is ErrorClass.SERVER and finish in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        {"code": 500, "msg": "insufficient balance", "success": False},
        {"object": "error", "message": "insufficient balance", "code": 400},
    ],
)
async def test_what_a_server_says_in_place_of_an_answer_is_told(body: Json) -> None:
    with pytest.raises(ProviderError, match="insufficient balance"):
        await answered(sends("application/json", json.dumps(body).encode()))


async def test_an_error_in_place_of_an_answer_has_its_class_a7() -> None:
    body = {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "no money"}}
    with pytest.raises(ProviderError, match="no money") as caught:
        await answered(sends("application/json", json.dumps(body).encode()))
    assert caught.value.kind is ErrorClass.BILLING


NEARLY = {
    "Python's spelling": "{'path': 'x'}",
    "a fence": f"```json\n{X}\n```",
    "a tag behind it": f"{X}</tool_call>",
    "a token behind it": f"{X}<|call|>",
    "a bracket too many": X + "}",
    "a comma too many": '{"path": "x",}',
}


@pytest.mark.parametrize("written", NEARLY.values(), ids=NEARLY.keys())
async def test_arguments_that_are_nearly_json_are_read(written: str) -> None:
    [(_, arguments)] = calls_in(await answered(whole({"tool_calls": [asks(written, id="a")]})))
    assert json.loads(arguments) == {"path": "x"}


@pytest.mark.parametrize("written", ['{"path": "x', "{'path': name}", X + " and more", "x", "[1]"])
async def test_arguments_that_are_cut_or_computed_stay_as_they_are(written: str) -> None:
    reply = await answered(whole({"tool_calls": [asks(written, id="a")]}))
    assert calls_in(reply) == [("read_file", written)]


async def test_arguments_that_are_null_are_none() -> None:
    reply = await answered(whole({"tool_calls": [asks("null", id="a")]}))
    assert calls_in(reply) == [("read_file", "{}")]


async def test_a_call_without_arguments_id_and_number_keeps_to_itself() -> None:
    calls = [{"function": {"name": "list_files", "arguments": ""}}, asks(X)]
    reply = await answered(sends("text/event-stream", pieces({"tool_calls": calls})))
    assert calls_in(reply) == [("list_files", ""), ("read_file", X)]


HELLO = pieces({"content": "hello"})
STRAYS = {
    "words as a sign of life": b"event: ping\ndata: ping\n\n" + HELLO,
    "the field's name twice": HELLO.replace(b"data: ", b"data: data: "),
}


@pytest.mark.parametrize("body", STRAYS.values(), ids=STRAYS.keys())
async def test_what_stands_around_the_events_costs_no_answer(body: bytes) -> None:
    assert (await answered(sends("text/event-stream", body), stream=True)).text == "hello"


async def test_words_in_place_of_events_are_told() -> None:
    body = b"data: upstream is gone\n\n"
    with pytest.raises(ProviderError, match="cut off: upstream is gone"):
        await answered(sends("text/event-stream", body), stream=True)


COUNTED = {"prompt_tokens": 90, "completion_tokens": 30, "total_tokens": 120}


@pytest.mark.parametrize(
    ("last", "counts"),
    [
        ({"choices": [], "usage": COUNTED}, (90, 30, 0)),
        ({"x_groq": {"id": "r", "usage": COUNTED}}, (90, 30, 0)),
        ({"choices": [{"delta": {}, "usage": COUNTED | {"cached_tokens": 8}}]}, (90, 30, 8)),
        ({"choices": [], "usage": {"input_tokens": 90, "output_tokens": 30}}, (90, 30, 0)),
        ({"choices": [], "usage": COUNTED | {"total_tokens": 500}}, (90, 410, 0)),
        ({"choices": [], "usage": COUNTED | {"total_tokens": 0}}, (90, 30, 0)),
    ],
)
async def test_usage_is_counted_wherever_it_stands_and_with_what_is_thought(
    last: Json, counts: tuple[int, int, int]
) -> None:
    chunks: list[Json] = [{"choices": [{"delta": {"content": "Hello"}}]}, END | last]
    body = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in chunks)
    found = await answered(sends("text/event-stream", body + b"data: [DONE]\n\n"), stream=True)
    usage = found.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == counts
    assert not usage.estimated


async def test_the_text_of_a_completion_of_the_older_kind_is_read() -> None:
    step = stream_of({"text": "Hel"}, {"text": "lo", "finish_reason": "stop"})
    assert (await answered(step, stream=True)).text == "Hello"


async def test_the_name_of_a_tool_may_come_in_pieces() -> None:
    steps = [{"name": "read_"}, {"name": "file"}, {"arguments": X}]
    first: Json = {"index": 0, "id": "a", "function": steps[0]}
    rest: list[Json] = [{"index": 0, "function": one} for one in steps[1:]]
    deltas = [{"delta": {"tool_calls": [one]}} for one in (first, *rest)]
    end = {"delta": {}, "finish_reason": "tool_calls"}
    assert calls_in(await answered(stream_of(*deltas, end), stream=True)) == [("read_file", X)]


SHAPES: Json = {
    "tags": {"type": "array", "items": {"type": "string"}},
    "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "deep": {"type": ["object", "null"]},
    "all": {"type": "boolean"},
    "text": {"type": "string"},
    "either": {"type": ["string", "number"]},
    "any": {},
    "far": {"type": "number"},
}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"tags": '["a","b"]', "count": "5"}, {"tags": ["a", "b"], "count": 5}),
        ({"deep": '{"k": 1}', "all": "true"}, {"deep": {"k": 1}, "all": True}),
        ({"text": "[1]", "either": "5", "any": "5"}, {"text": "[1]", "either": "5", "any": "5"}),
        ({"tags": "a, b", "count": "[5]"}, {"tags": "a, b", "count": "[5]"}),
        ({"other": "5"}, {"other": "5"}),
        ({"count": "5", "text": "a\ud800b"}, {"count": 5, "text": "a\ufffdb"}),
        ({"far": "1e999"}, {"far": "1e999"}),
        ({"far": "NaN", "count": "1"}, {"far": "NaN", "count": 1}),
        ({"tags": "[" * 993 + "]" * 993}, {"tags": "[" * 993 + "]" * 993}),
    ],
)
async def test_an_argument_that_is_written_as_a_text_is_what_its_tool_takes(
    given: Json, meant: Json
) -> None:
    tool = ToolSpec("label", "Labels", {"type": "object", "properties": SHAPES})
    call = {"id": "a", "function": {"name": "label", "arguments": json.dumps(given)}}
    step = whole({"content": None, "tool_calls": [call]})
    asked = ModelRequest((Message(MessageRole.USER, "hi"),), tools=(tool,))
    [found] = (await answered_by(step, stream=False, asked=asked)).calls
    assert json.loads(found.arguments) == meant
