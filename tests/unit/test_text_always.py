"""What holds for every text in every dialect (A13): it fits, nothing is lost, markup is whole, it is the same again, and fast."""

import re
import time
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from channels.markup import discord, slack, telegram
from channels.markup.parse import is_visible
from channels.markup.sanitize import escape_controls, escape_markdown
from channels.message import MessagePart

Pieces = Callable[..., list[MessagePart]]
DIALECTS = [telegram.render_parts, slack.render_parts, discord.render_parts]
LIMIT, WHOLE = 500, 10_000_000
BITS = [
    "word ", "word ", "A sentence. ", "\n", "\n\n", "**", "*", "_", "~~", "`", "```\n", "```py\n", "> ", ">> ", "- ",
    "  - ", "1. ", "# ", "|a|b|\n|-|-|\n", "|1|2|\n", "[", "](https://a.org/b)", "](", ")", "||", "<b>", "&amp;",
    "<@1>", "@everyone ", "\\", "\\(", "$$", "---\n", "https://a.org/x_y", "👨‍👩‍👧", "🇨🇭", "שלום ", "漢字", "\u202e",
    "\t", "é", "- [ ] ", "![x](y)", "    ",
]  # fmt: skip
TEXTS = some.one_of(
    some.lists(some.sampled_from(BITS), max_size=250).map("".join), some.text(max_size=800)
)
SIGNS = [
    "$$",
    "1) ",
    "7) ",
    "=",
    "^",
    "{",
    "}",
    "\\[",
    "\\]",
    "\\)",
    "]",
    "[x]",
    "[a=b]",
    "\n\n\t",
    "\n    ",
    ". ",
]
LETTERS = some.characters(codec="utf-8", exclude_characters="\ufdd0")
SAID = some.one_of(
    some.lists(some.sampled_from(BITS + SIGNS), max_size=250).map("".join),
    some.text(LETTERS, max_size=800),
)
dialects = pytest.mark.parametrize(
    "pieces", DIALECTS, ids=lambda pieces: pieces.__module__.split(".")[-1]
)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def squeezed(told: list[MessagePart]) -> str:
    """All that is read, without spaces and what is told again in front of the rest of a quote."""
    return re.sub(r"[\s>›]", "", "".join(piece.plain for piece in told))


@dialects
@given(markdown=TEXTS)
def test_A13_every_piece_fits_and_nothing_is_lost(pieces: Pieces, markdown: str) -> None:
    told = pieces(markdown, limit=LIMIT)
    assert all(piece.plain.strip() and piece.text.strip() for piece in told)
    assert all(units(piece.plain) <= LIMIT and units(piece.text) <= LIMIT for piece in told)
    assert squeezed(told) == squeezed(pieces(markdown, limit=WHOLE))
    assert told == pieces(markdown, limit=LIMIT)


@dialects
@given(
    words=some.lists(some.from_regex(r"\A[a-z0-9]{1,12}\Z"), min_size=1, max_size=300),
    bits=some.lists(some.sampled_from(BITS)),
)
def test_A13_every_word_arrives_in_order_whatever_stands_between(
    pieces: Pieces, words: list[str], bits: list[str]
) -> None:
    text = " ".join(
        word + (f" {bits[at]} " if at < len(bits) else "") for at, word in enumerate(words)
    )
    told = "".join(piece.plain for piece in pieces(text, limit=LIMIT))
    at = 0
    for word in words:
        at = told.index(word, at) + len(word)


def inked(text: str) -> str:
    """All of it that can be seen."""
    return "".join(char for char in text if is_visible(char))


@dialects
@given(text=SAID)
def test_A6_what_is_said_word_for_word_is_read_so(pieces: Pieces, text: str) -> None:
    words = inked(escape_controls(text))
    assume(words)
    assert (
        inked("".join(piece.plain for piece in pieces(escape_markdown(text), limit=LIMIT))) == words
    )


VERBATIM = {
    "a list of arguments": '{"argv": ["--out=a.b", "[x^2]", "\\\\n"]}',
    "a condition of the shell": '[ "$a" = "b" ] && echo $$ = $$ \\(a_b = c\\)',
    "numbers": "3) a\n7) b",
    "a line that begins with a tab": "all:\n\n\tcc -o a.out *.c",
    "a long line": "a.b = [c] <br> ||d|| " * 1000,
    "many brackets": "[[1], [-2]]. " * 300,
}


@dialects
@pytest.mark.parametrize("text", VERBATIM.values(), ids=VERBATIM)
def test_A6_no_sign_is_taken_for_markup_nor_one_added(pieces: Pieces, text: str) -> None:
    assert inked(
        "".join(piece.plain for piece in pieces(escape_markdown(text), limit=WHOLE))
    ) == inked(text)


class Tags(HTMLParser):
    """Telegram's own rules: known tags, closed in order, nothing within code, no quote in a quote."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.read: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("b", "i", "s", "code", "pre", "a", "blockquote", "tg-spoiler")
        assert "code" not in self.open
        assert tag == "code" or "pre" not in self.open
        assert tag not in self.open
        assert tag not in ("code", "pre") or set(self.open) <= {"blockquote", "pre"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.read.append(data)


@given(markdown=TEXTS)
def test_A13_telegrams_html_is_whole_and_reads_as_the_plain_text(markdown: str) -> None:
    for piece in telegram.render_parts(markdown, limit=LIMIT):
        tags = Tags()
        tags.feed(piece.text)
        tags.close()
        assert not tags.open
        bare = re.sub(r" \([^\s()]*\)|[\s>›]", "", "".join(tags.read))
        assert bare == re.sub(r" \([^\s()]*\)|[\s>›]", "", piece.plain)


@given(markdown=TEXTS)
def test_A13_nobody_is_called_by_what_a_model_writes(markdown: str) -> None:
    for piece in slack.render_parts(markdown):
        assert re.fullmatch(
            r"(?s)(?:[^<>]|^> |\n> |<(?:https?://|mailto:)[^<>|\s]+(?:\|[^<>|]*)?>)*", piece.text
        )
    for piece in discord.render_parts(markdown):
        outside = re.sub(r"(?s)```.*?```|``.*?``|`[^`]*`", "", piece.text)
        assert not re.search(r"<[@#]|@everyone|@here", outside)


HOSTILE = {
    "brackets": "[" * 200_000,
    "pictures": "![" * 100_000,
    "backticks": "`" * 100_000 + "a`" * 50_000,
    "runs of backticks": "".join("`" * count + "a" for count in range(600)),
    "quotes": ">" * 100_000 + "a",
    "steps of quotes": "".join(">" * depth + "a\n" for depth in range(600)),
    "lists": "- " * 100_000,
    "steps of lists": "\n".join(" " * depth + "- a" for depth in range(600)),
    "signs": "*_~" * 66_000,
    "opened": "**a_ " * 40_000,
    "links": "[a](" * 50_000,
    "whole links": "[a](http://b) " * 14_000,
    "paragraphs of brackets": "\n\n".join(["[" * 15_900] * 12),
    "tables": ("|a" * 19 + "|\n" + "|-" * 19 + "|\n" + "|b\n" * 500 + "\n") * 90,
    "lines": "a\n" * 100_000,
    "items": "* a\n" * 50_000,
    "one word": "a" * 200_000,
    "accents": "a" + "\u0301" * 199_999,
    "flags": "🇨🇭" * 50_000,
    "addresses": "https://" * 25_000,
    "address": "https://a" + "(." * 99_000,
    "spoilers": "||a" * 60_000,
    "formulas": "\\(" * 100_000,
    "code": "```\n" + "`" * 199_000,
    "tags": "<a " * 60_000,
}


@dialects
@pytest.mark.parametrize("markdown", HOSTILE.values(), ids=HOSTILE)
def test_B5_13_hostile_markdown_takes_no_time(pieces: Pieces, markdown: str) -> None:
    before = time.process_time()
    told = pieces(markdown, limit=2000)
    assert time.process_time() - before < 3
    assert all(units(piece.plain) <= 2000 for piece in told)


@dialects
@pytest.mark.parametrize(
    "kind", ["brackets", "quotes", "signs", "tables", "lines", "one word", "code"]
)
def test_B5_13_nothing_of_hostile_markdown_is_lost(pieces: Pieces, kind: str) -> None:
    text = HOSTILE[kind][:20_000]
    assert squeezed(pieces(text, limit=2000)) == squeezed(pieces(text, limit=WHOLE))


def test_what_is_nested_too_deep_is_still_there() -> None:
    assert "the end" in telegram.render_parts("> - " * 200 + "the end")[-1].plain
