"""The small pure pieces: batches, capped output, arguments, protected paths, retries, the safe grammar."""

import asyncio
import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.charsets import decode_text
from daemon.core.messages import ToolCall, ToolSpec
from daemon.core.trust import Effect
from daemon.core.turn import CallState
from daemon.settings.redaction import RedactedStream, Redactor
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from daemon.tools.calls import (
    MAX_PARALLEL,
    AdmittedCall,
    args_hash,
    canonical_json,
    is_protected,
    parse_arguments,
    retry_delay,
    split_into_batches,
    to_printable,
    truncate_middle,
)
from daemon.tools.shell.binary import is_binary
from daemon.tools.shell.process import PREVIEW_BYTES, HeadTail, OutputPreview

PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(st.text(max_size=5), PLAIN, max_size=3)
ARGUMENTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


async def nothing(arguments: object, context: ToolContext) -> ToolOutput:
    return ToolOutput("")


def ready(index: int, meta: ToolMeta, path: str) -> AdmittedCall:
    name = f"tool{index}"
    state = CallState(f"1.{index}", ToolCall("call_0", name, "{}"))
    tool = Tool(ToolSpec(name, "", {}), meta, nothing)
    return AdmittedCall(state, tool, {"path": path}, meta.effect)


METAS = st.builds(
    ToolMeta,
    effect=st.sampled_from(Effect),
    parallel=st.booleans(),
    paths=st.sampled_from([(), ("path",)]),
)
CALLS = st.lists(st.tuples(METAS, st.sampled_from(["", "a", "a/b", "b", "c", "c/d"])), max_size=30)


@given(CALLS)
def test_batches_keep_every_call_in_order(given_calls: list[tuple[ToolMeta, str]]) -> None:
    calls = [ready(index, meta, path) for index, (meta, path) in enumerate(given_calls)]
    assert [call for batch in split_into_batches(calls) for call in batch] == calls


@given(CALLS)
def test_nobody_in_a_batch_disturbs_another(given_calls: list[tuple[ToolMeta, str]]) -> None:
    """E5: one who changes something shares a batch only with those who are elsewhere."""
    calls = [ready(index, meta, path) for index, (meta, path) in enumerate(given_calls)]
    for batch in split_into_batches(calls):
        writers = [call for call in batch if not call.changes_nothing]
        assert len(batch) == 1 or all(call.tool.meta.parallel for call in batch)
        assert not writers or len(batch) <= MAX_PARALLEL
        for writer in writers if len(batch) > 1 else []:
            assert writer.tool.meta.effect is Effect.WRITE
            others = [place for call in batch if call is not writer for place in call.paths]
            assert len(others) >= len(batch) - 1
            mine = PurePosixPath(str(writer.arguments["path"]) or ".")
            assert not any(
                mine.is_relative_to(other) or other.is_relative_to(mine) for other in others
            )


def test_neighbours_that_only_read_share_one_batch_of_any_size() -> None:
    calls = [ready(index, ToolMeta(Effect.READ, parallel=True), "") for index in range(20)]
    assert [len(batch) for batch in split_into_batches(calls)] == [20]


def test_what_changes_something_is_started_eight_at_a_time() -> None:
    """A crash then leaves no more outcomes unknown than could really have begun."""
    meta = ToolMeta(Effect.WRITE, parallel=True, paths=("path",))
    calls = [ready(index, meta, f"file{index}") for index in range(12)]
    assert [len(batch) for batch in split_into_batches(calls)] == [8, 4]


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(10, 100))
def test_head_and_tail_of_a_stream_are_its_real_ends_however_it_was_cut(
    pieces: list[bytes], limit: int
) -> None:
    kept, whole = HeadTail(limit), b"".join(pieces)
    for piece in pieces:
        kept.feed(piece)
    text = kept.text(10_000, RedactedStream(Redactor()))
    assert kept.total == len(whole)
    if is_binary(whole[:limit]):
        assert text.startswith(f"(binary output, {len(whole):,} bytes")
        return
    if len(whole) <= limit:
        assert text == to_printable(decode_text(whole)[0])
    if len(whole) > 2 * limit and is_binary(whole[-limit:]):
        assert text.endswith(f"[... {len(whole) - limit:,} bytes left out: binary output ...]")
    elif len(whole) > 2 * limit:
        assert f"about {len(whole) - 2 * limit} bytes left out" in text


@given(st.text(max_size=500), st.integers(60, 300))
def test_a_capped_text_is_never_longer_than_its_cap(text: str, limit: int) -> None:
    capped = truncate_middle(text, limit)
    assert len(capped) <= limit
    assert capped == text or (capped[0] == text[0] and capped[-1] == text[-1])


@given(st.text())
def test_printable_text_can_be_stored_anywhere(text: str) -> None:
    shown = to_printable(text)
    assert shown.encode().decode() == shown
    assert not any(ord(sign) < 32 and sign not in "\n\t" for sign in shown)
    assert to_printable(shown) == shown


async def test_live_output_comes_in_few_pieces_of_bounded_size() -> None:
    shown: list[str] = []
    ticker = OutputPreview(shown.append)
    for _ in range(1000):
        ticker.feed(b"x" * 1000)
    ticker.flush()
    assert [len(piece) for piece in shown] == [PREVIEW_BYTES]


async def test_live_output_is_shown_though_nothing_follows() -> None:
    shown: asyncio.Queue[str] = asyncio.Queue()
    OutputPreview(shown.put_nowait).feed(b"waiting for you")
    assert await asyncio.wait_for(shown.get(), 5) == "waiting for you"


@given(ARGUMENTS)
def test_arguments_are_read_without_what_only_the_daemon_fills_in(
    arguments: dict[str, object],
) -> None:
    """A10."""
    read = parse_arguments(json.dumps(arguments))
    assert read == {name: value for name, value in arguments.items() if not name.startswith("_")}


@given(ARGUMENTS)
def test_the_hash_of_arguments_knows_no_order_and_tells_tools_apart(
    arguments: dict[str, object],
) -> None:
    turned = dict(reversed(arguments.items()))
    assert args_hash("a", arguments) == args_hash("a", turned) != args_hash("b", arguments)
    assert canonical_json(arguments) == canonical_json(turned)
    assert canonical_json(arguments).encode()


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/.env", ".env", True), ("a/.env/b", ".env", True), ("a/env", ".env", False), ("/ws/keys/x", "keys/", True),
        ("keys.txt", "keys", False), ("A/B/c", "a/b", True), ("a/x/b", "a/b", False), (".", ".env", False), ("x", "", False),
        ("cafe\u0301/x", "caf\u00e9", True),
    ],
)  # fmt: skip
def test_a_protected_path_is_known_in_any_spelling(path: str, pattern: str, expected: bool) -> None:
    assert is_protected(PurePosixPath(path), [pattern]) is expected


def test_only_what_does_no_harm_twice_is_tried_again() -> None:
    """E6."""
    assert [retry_delay(ToolMeta(Effect.READ, retries=5), {}, attempt) for attempt in range(1, 7)] == [
        0.5,
        1,
        2,
        2,
        2,
        None,
    ]
    assert retry_delay(ToolMeta(Effect.FETCH, retries=1), {}, 1) == 0.5
    assert retry_delay(ToolMeta(Effect.WRITE, retries=1), {}, 1) is None
    assert retry_delay(ToolMeta(Effect.WRITE, idempotent=True, retries=1), {}, 1) == 0.5
    assert not ToolMeta(Effect.FETCH).is_repeatable({})
