"""No secret gets through, in whatever way it is written or cut into pieces (A6 of the reference, "Secrets")."""

import base64
import json
import random
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.messages import ModelReply, ToolCall
from daemon.settings.redaction import MIN_LENGTH, RedactedStream, Redactor, format_marker
from tests.security.encodings import ENCODINGS

PLAIN = "sk-9fQ2_hunter2-Zz81/+=x"
ODD = "pa\"ss\\wörd <&'/%> ok"
SECRETS = {"api": PLAIN, "mail": ODD}
DOCS = Path(__file__).parents[2] / "daemon" / "docs"

secret = st.text(
    st.characters(codec="utf-8", exclude_characters="[]{}"), min_size=MIN_LENGTH, max_size=30
)
filler = st.text(st.sampled_from("ab %=\\/é\n"), max_size=12)


def redactor(**secrets: str) -> Redactor:
    names = {value: name for name, value in secrets.items()}
    return Redactor(lambda: names)


def in_pieces(stream: RedactedStream, text: str, cuts: list[int]) -> list[str]:
    marks = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [*(stream.feed(text[a:b]) for a, b in pairwise(marks)), stream.flush()]


@pytest.mark.parametrize("way", ENCODINGS)
@pytest.mark.parametrize("name", SECRETS)
def test_A6_a_secret_is_taken_out_in_every_usual_way_of_writing_it(way: str, name: str):
    written = ENCODINGS[way](SECRETS[name])
    shown = redactor(**SECRETS).redact_text(f"before {written} after")
    assert format_marker(name) in shown and shown.startswith("before ") and shown.endswith(" after")
    assert written not in shown and SECRETS[name] not in shown


@pytest.mark.parametrize("way", ENCODINGS)
@pytest.mark.parametrize("name", SECRETS)
def test_A6_a_secret_that_is_cut_by_a_chunks_border_does_not_pass(way: str, name: str):
    """At every place, and letter by letter; of a name and its rest no more is shown than of the whole."""
    known = redactor(**SECRETS)
    text = f"before {ENCODINGS[way](SECRETS[name])} after"
    whole = known.redact_text(text)
    for cut in range(len(text) + 1):
        assert "".join(in_pieces(RedactedStream(known), text, [cut])) == whole
    assert "".join(in_pieces(RedactedStream(known), text, [*range(len(text))])) == whole


@given(value=secret, before=filler, after=filler, data=st.data())
def test_A6_it_does_not_matter_which_letters_are_escaped(
    value: str, before: str, after: str, data: st.DataObject
):
    """Each service has a list of its own."""
    which = data.draw(st.lists(st.booleans(), min_size=len(value), max_size=len(value)))
    for way in ("every byte in an address", "every letter in JSON", "every letter in a page"):
        written = "".join(
            ENCODINGS[way](char) if escape or char in "%\\&" else char
            for char, escape in zip(value, which, strict=True)
        )
        known = redactor(one=value)
        shown = known.redact_text(before + written + after)
        assert written not in shown and format_marker("one") in shown
        cuts = [*range(len(before + written + after))]
        assert "".join(in_pieces(RedactedStream(known), before + written + after, cuts)) == shown


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_an_ordinary_page_is_shown_as_it_is(page: Path):
    text = page.read_text()
    known = redactor(
        **SECRETS, word="correct-Horse7battery", hex="9f86d081884c7d65", short="a%b\\c&"
    )
    for way in ("as it is", "in JSON", "in an address", "in a page", "hexadecimal", "base64"):
        written = ENCODINGS[way](text)
        assert known.redact_text(written) is written


def test_random_letters_and_numbers_are_shown_as_they_are():
    chance, known = random.Random(7), redactor(**SECRETS, hex="9f86d081884c7d65")
    for alphabet in ("0123456789abcdef", "abcdefghijklmnop qrstuvwxyz.-ABC/+=", "\\u0062%64&#;"):
        text = "".join(chance.choice(alphabet) for _ in range(20_000))
        assert known.redact_text(text) is text


@given(value=secret, before=filler, after=filler, way=st.sampled_from(list(ENCODINGS)))
def test_A6_no_text_around_it_hides_it(value: str, before: str, after: str, way: str):
    written = ENCODINGS[way](value)
    assert written not in redactor(one=value).redact_text(before + written + after)


@given(
    values=st.lists(secret, min_size=1, max_size=4),
    texts=st.lists(filler, min_size=5, max_size=5),
    data=st.data(),
)
def test_A6_a_stream_gives_what_the_whole_would_however_it_is_split(
    values: list[str], texts: list[str], data: st.DataObject
):
    parts = [
        text + ENCODINGS[data.draw(st.sampled_from(list(ENCODINGS)))](values[i % len(values)])
        for i, text in enumerate(texts)
    ]
    text = "".join(parts)
    cuts = data.draw(st.lists(st.integers(0, 10_000), max_size=30))
    known = redactor(**{f"s{i}": value for i, value in enumerate(values)})
    shown = "".join(in_pieces(RedactedStream(known), text, cuts))
    assert shown == known.redact_text(text)
    assert not any(value in shown for value in values)


@given(
    text=st.text("ab", max_size=60),
    values=st.lists(st.text("ab", min_size=6, max_size=20), min_size=1, max_size=5),
)
def test_A6_secrets_that_overlap_hide_no_other(text: str, values: list[str]):
    known = redactor(**{f"s{i}": value for i, value in enumerate(values)})
    whole = known.redact_text(text)
    assert not any(value in whole for value in values)
    assert "".join(in_pieces(RedactedStream(known), text, list(range(0, 60)))) == whole


def test_a_stream_holds_back_no_more_than_the_longest_secret_and_nothing_that_cannot_be_one():
    known = redactor(one="0123456789" * 3)
    stream, longest = RedactedStream(known), max(map(len, known.look().names))
    assert stream.feed("hello, ") == "hello, "
    shown = "".join(
        stream.feed(piece) for piece in ("0123456789" * 2, "0123456789" * 2, "01234567")
    )
    assert shown == "" or format_marker("one") in shown
    assert len(stream._held) < longest
    assert "0123456789" * 3 not in shown + stream.flush()


def test_a_text_without_secrets_is_the_very_same_object():
    text = "nothing here"
    reply = ModelReply(text, (ToolCall("1", "shell", '{"command": "ls"}'),))
    known = redactor(**SECRETS)
    assert known.redact_text(text) is text and known.redact_value(reply) is reply


def test_every_text_of_a_value_is_cleaned_and_nothing_else_is_touched():
    call = ToolCall("call_0", "shell", json.dumps({"command": f"echo {ODD}"}))
    reply = redactor(**SECRETS).redact_value(ModelReply(f"it is {PLAIN}", (call,), model="m"))
    assert reply.text == "it is [secret api]" and reply.model == "m"
    assert json.loads(reply.calls[0].arguments) == {"command": "echo [secret mail]"}


@dataclass(frozen=True)
class Nested:
    rows: list[dict[str, object]]


def test_lists_and_mappings_are_cleaned_to_their_keys():
    thing = redactor(**SECRETS).redact_value(Nested([{"a": [PLAIN, 3], PLAIN: None}]))
    assert thing == Nested([{"a": ["[secret api]", 3], "[secret api]": None}])


leaf = st.none() | st.integers() | st.sampled_from(["plain", "", "\0", PLAIN, f"x{ODD}y"])
inner = st.sampled_from([PLAIN, "key"])
nested = st.recursive(
    leaf, lambda part: st.lists(part) | st.tuples(part) | st.dictionaries(inner, part)
)


@given(rows=st.lists(st.dictionaries(st.just("row"), nested)))
def test_A6_no_place_in_a_value_hides_a_secret(rows: list[dict[str, object]]):
    before, known = Nested(rows), redactor(**SECRETS)
    after = known.redact_value(before)
    assert (after is before) == (PLAIN not in repr(before) and repr(ODD)[1:-1] not in repr(before))
    assert PLAIN not in repr(after) and repr(ODD)[1:-1] not in repr(after)


def test_A6_handles_pass_untouched():
    text = "use {{secret:api}} and {{secret:mail}}"
    assert redactor(**SECRETS).redact_text(text) == text


@pytest.mark.parametrize("value", ["abc12", "secret", "", "{{secret:x", "[secret "])
def test_what_is_too_short_or_part_of_the_words_that_stand_for_secrets_is_not_looked_for(
    value: str,
):
    text = f"<{value}> {{{{secret:x}}}}"
    assert redactor(x=value).redact_text(text) == text


def test_a_key_of_several_lines_is_found_line_by_line_but_for_its_frame():
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----"
    shown = redactor(pem=key).redact_text("\n".join(f"    {line}" for line in key.splitlines()))
    assert "MIIE" not in shown and "AQEF" not in shown and "BEGIN PRIVATE KEY" in shown


def test_A6_new_secrets_are_looked_for_as_soon_as_the_source_has_them():
    known: list[dict[str, str]] = [{}]
    redact = Redactor(lambda: known[0])
    assert redact.redact_text(PLAIN) == PLAIN
    known[0] = {PLAIN: "api"}
    assert redact.redact_text(PLAIN) == format_marker("api")


def test_A6_a_text_that_held_no_secret_is_looked_at_again_when_there_is_a_new_one():
    known: list[dict[str, str]] = [{ODD: "mail"}]
    redact, reply = Redactor(lambda: known[0]), ModelReply(f"it is {PLAIN}")
    assert (redact.redact_text(PLAIN), redact.redact_value(reply), redact.is_clean([PLAIN])) == (
        PLAIN,
        reply,
        True,
    )
    assert redact.redact_text(PLAIN) == PLAIN
    known[0] = {ODD: "mail", PLAIN: "api"}
    assert not redact.is_clean([PLAIN, "plain"])
    assert (redact.redact_text(PLAIN), redact.redact_value(reply).text) == (
        format_marker("api"),
        f"it is {format_marker('api')}",
    )


def test_100_kb_with_20_secrets_and_no_hit_take_less_than_a_millisecond():
    text = "The quick brown fox jumps over the lazy dog, 1234567890 times.\n" * 1600
    known = redactor(
        **{f"s{i}": base64.b85encode(bytes(range(i, i + 32))).decode() for i in range(20)}
    )
    known.redact_text("compiled now")

    def once() -> float:
        began = time.perf_counter()
        known.redact_text(text)
        return time.perf_counter() - began

    assert min(once() for _ in range(40)) < 0.001 * len(text) / 100_000


def test_A6_a_secret_that_is_added_while_a_stream_runs_is_taken_out_of_the_rest():
    names = {"first-secret": "one"}
    known = Redactor(lambda: names)
    stream = RedactedStream(known)
    assert stream.feed("begin ") == "begin "
    names = {**names, PLAIN: "api"}
    assert stream.feed(f"{PLAIN} ") + stream.flush() == f"{format_marker('api')} "


def test_a_text_that_one_thread_found_clean_is_looked_at_again_once_a_secret_is_added() -> None:
    """Log lines are cleaned in many threads: what was searched for the former secrets proves nothing."""
    secrets: list[dict[str, str]] = [{PLAIN: "api"}]
    redactor, line = Redactor(lambda: secrets[-1]), "the new one is n3w-s3cret-value"

    class SlowLine(str):
        __slots__ = ()

        def encode(
            self, encoding: str = "utf-8", errors: str = "strict"
        ) -> bytes:  # meanwhile another thread logs
            if len(secrets) == 1:
                secrets.append({PLAIN: "api", "n3w-s3cret-value": "new"})
                assert redactor.redact_text("something else") == "something else"
            return super().encode(encoding, errors)

    redactor.redact_text(SlowLine(line))
    assert redactor.redact_text(line) == f"the new one is {format_marker('new')}"
