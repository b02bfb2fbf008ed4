"""Server-sent events, and how long a server asks us to wait."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.providers.errors import parse_retry_after
from daemon.providers.http import EventStreamParser

STREAM = 'data: {"a": "ü"}\r\n\r\n: ping\n\nevent: error\r\ndata: one\r\ndata:two\n\nid: 3\nretry: 5\rdata: [DONE]\r\r'.encode()
EVENTS = [
    ("", '{"a": "ü"}'),
    ("error", "one\ntwo"),
    ("", "[DONE]"),
]


@given(st.sets(st.integers(0, len(STREAM))))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    stream = EventStreamParser()
    assert [e for a, b in pairwise(edges) for e in stream.feed(STREAM[a:b])] == EVENTS


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1), min_size=1
    ),
    st.integers(1, 7),
)
def test_any_text_survives_the_stream(texts: list[str], size: int) -> None:
    sent = b"".join(f"data: {text}\n\n".encode() for text in texts)
    stream = EventStreamParser()
    assert [
        data for at in range(0, len(sent), size) for _, data in stream.feed(sent[at : at + size])
    ] == texts


def test_an_event_that_is_not_finished_is_no_event() -> None:
    assert EventStreamParser().feed(b'data: {"choices": []}\ndata: {"cho') == []


def test_events_without_empty_lines_between_them_are_events_and_one_of_many_lines_is_one() -> None:
    sent = b'data: {"a": 1}\ndata: {"b": 2}\ndata: [DONE]\n\ndata: {"c":\ndata: 3}\n\n'
    found = [data for _, data in EventStreamParser().feed(sent)]
    assert found == ['{"a": 1}', '{"b": 2}', "[DONE]", '{"c":\n3}']


def test_a_byte_order_mark_is_not_part_of_the_first_field() -> None:
    assert EventStreamParser().feed("\ufeffdata: x\n\n".encode()) == [("", "x")]


NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "0"}, 0),
        ({"Retry-After": "Sat, 21 Nov 2026 12:00:30 GMT"}, 30),
        ({"Retry-After": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after-ms": "1500", "Retry-After": "9"}, 1.5),
        ({}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "1e999"}, None),
        ({"Retry-After": "Sat, 99 Nov 2026"}, None),
        ({"retry-after-ms": "nan"}, None),
    ],
)
def test_both_forms_of_retry_after_are_understood(
    headers: dict[str, str], seconds: float | None
) -> None:
    """A7, issue 2 item 5."""
    assert parse_retry_after(headers, NOW) == seconds
