"""Steps of the embedded model: read whole, and shown while they grow."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.redaction import drop_lone_surrogates
from daemon.providers.local.prompt import (
    ReplyDecoder,
    compact_json,
    format_step,
    normalize_arguments,
    parse_reply,
    parse_step,
)

texts = st.text(st.characters() | st.sampled_from('"\\/\n\t\b\f\r😀é\u2028'))
broken_halves = st.lists(
    st.sampled_from(["\\ud83d", "\\ude00", "\\u00e9", "\\n", "a", '\\"', "\\\\"])
).map("".join)


def cut_up(data: st.DataObject, raw: str) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=len(raw))))
    return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


def shown(pieces: list[str]) -> str:
    decoder = ReplyDecoder()
    text = "".join(map(decoder.feed, pieces))
    assert text == decoder.text
    return text


@given(texts, st.booleans(), st.sampled_from(["", " ", "\n  "]), st.data())
def test_however_a_reply_is_cut_its_pieces_make_up_its_text(
    text: str, plain: bool, space: str, data: st.DataObject
):
    quoted = json.dumps(text, ensure_ascii=not plain)
    raw = f'{{"tool":{space}"reply",{space}"args":{space}{{"text":{space}{quoted}{space},"kind":"answer"}}}}'
    assert (
        shown(cut_up(data, raw)) == drop_lone_surrogates(text) == parse_reply(parse_step(raw)[1])[0]
    )


@given(broken_halves, st.data())
def test_halves_of_characters_are_replaced_alike_in_pieces_and_in_the_whole(
    escaped: str, data: st.DataObject
):
    raw = f'{{"tool":"reply","args":{{"text":"{escaped}","kind":"plan"}}}}'
    text = shown(cut_up(data, raw))
    assert (text, True) == parse_reply(parse_step(raw)[1])
    assert text.encode().decode() == text


@given(st.dictionaries(st.text(), texts), st.data())
def test_nothing_is_shown_of_a_tool_call(arguments: dict[str, str], data: st.DataObject):
    assert shown(cut_up(data, format_step("shell", compact_json(arguments)))) == ""


def test_text_is_shown_as_soon_as_it_is_there():
    decoder = ReplyDecoder()
    pieces = ['{"tool":"re', 'ply","args":{"text":"', "Hel", "lo \\u00", "e9", "\\", 'n"', "}}"]
    assert list(map(decoder.feed, pieces)) == ["", "", "Hel", "lo ", "é", "", "\n", ""]


def test_a_step_is_read_and_written_in_the_same_bytes():
    raw = '{"tool":"write_file","args":{"path":"a b.txt","text":"é\\n"}}'
    tool, args = parse_step(raw)
    assert tool == "write_file"
    assert format_step(tool, compact_json(args)) == raw


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "{",
        '{"tool":"shell","args":{"command":"ls',
        '{"tool":3,"args":{}}',
        "[]",
        '{"tool":"x"}',
    ],
)
def test_a_broken_step_is_a_malformed_answer(raw: str):
    with pytest.raises(ProviderError) as failed:
        parse_step(raw)
    assert failed.value.kind is ErrorClass.MALFORMED


def test_a_reply_without_text_is_a_malformed_answer():
    with pytest.raises(ProviderError) as failed:
        parse_reply(parse_step('{"tool":"reply","args":{}}')[1])
    assert failed.value.kind is ErrorClass.MALFORMED


def test_arguments_that_another_model_wrote_are_shown_in_our_form():
    assert normalize_arguments('{ "a" :  1 }') == '{"a":1}'
    assert normalize_arguments("not json") == "{}"
