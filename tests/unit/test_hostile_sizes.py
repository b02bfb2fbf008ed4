"""Whatever a stranger's text looks like, to look at four times as much of it takes about four times as long: no page, mail or answer keeps the daemon busy (A6)."""

from collections.abc import Callable
from time import process_time

import pytest

from channels.markup import parse, telegram
from channels.markup.split import split_message
from daemon.agent import claim_check
from daemon.agent.termination import conditions, loop_detection
from daemon.core import messages, quoted
from daemon.settings.redaction import RedactedStream, Redactor
from daemon.tools import stemming
from daemon.tools.policy import addresses, disclosure, orders
from daemon.tools.web import search

SECRETS = {"a-long-value-of-mine-4711": "api"}
ONE_LETTER = {"a" * 40: "a", "\\" * 40: "b", "%" * 40: "c", "&" * 40: "d"}
REDACTOR = Redactor(lambda: SECRETS)
REPEATED = Redactor(lambda: ONE_LETTER)
SIZE, SLOW_S, MOST = 2000, 0.02, 9
LOOKS: dict[str, Callable[[str], object]] = {
    "secrets": lambda text: REDACTOR.look().find(text.encode()),
    "secrets in pieces": lambda text: [*map(RedactedStream(REDACTOR).feed, text)],
    "secrets of one letter": lambda text: REPEATED.look().find(text.encode()),
    "addresses": addresses.find_addresses.__wrapped__,
    "mentions": addresses._normalize.__wrapped__,
    "a whole address": lambda text: addresses.mentions_address(
        text, addresses.WebAddress("https", "a.example", "/a")
    ),
    "a name in it": lambda text: addresses.stands_in(text, "bob smith"),
    "all of it in it": lambda text: addresses.stands_in(text, f"{text} b"),
    "one of many in it": lambda text: addresses.stands_in(text, text[:1]),
    "a list in it": lambda text: orders._find_list(text * 10),
    "what is quoted": quoted.find_quoted,
    "what is marked": lambda text: quoted.fence_quoted(text, (text[:3],)),
    "an address alone": addresses.leads_outside,
    "stems": stemming.list_stems,
    "tokens": disclosure._list_tokens,
    "images": messages.defuse,
    "claims": claim_check._find_claims.__wrapped__,
    "doubts": conditions.find_low_confidence,
    "repetitions": loop_detection.find_repeated_passage,
    "a search's markup": search._strip_markup,
    "markdown": parse.parse_blocks,
    "messages": lambda text: split_message(text, telegram._to_html, 4096),
}
UNITS = (
    "a", " ", "\n", "a ", "<", "<a ", "<!--", "[", "(", "](", "![", "`", "*", "_", "~", "|", "\\",
    "%", "&", "&#", "=", "=41", "9", "1,", ".", "-", "@", "a@", "a.", "\"", "'", "“", "‘", "„", "«",
    "“a", ">", "> a\n", "# a\n", "- a\n", "a\n", "a\n\n", " \n", "\n ", "|a", "1. ", "12:30 ",
    "jan 1 ", "http://", "https://a ", "from: ", "I have ", "\u0301", "\u0345\u0334", "\u200b", "é",
    "{\"a\":", "[1,", "\x1b[", "$", "$(", "${a", "a=", "CONFIG_", "a=1\n", "sh -a ", "; ./", "./a/", " -exec ",
    "cd ", "include ", "set --", "sed ", "| sh", "sh <",
)  # fmt: skip
SHAPES: dict[str, Callable[[int], str]] = {
    **{repr(unit): lambda size, unit=unit: (unit * size)[:size] for unit in UNITS},
    "signs out of order": lambda size: "a" + "\u0345" * (size // 2) + "\u0334" * (size // 2),
    "nested brackets": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "nested quotations": lambda size: ">" * (size // 20) + "a\n" * (size // 4),
    "a link's end": lambda size: "http://a.example/" + ")" * size,
    "a long domain": lambda size: "a@" + "a." * (size // 2) + "@",
    "half a secret": lambda size: ("a-long-value-of-" * size)[:size],
    "half a secret, escaped": lambda size: ("a-long-v\\u0061lue-of-" * size)[:size],
}


def _time(look: Callable[[str], object], text: str) -> float:
    began = process_time()
    look(text)
    return process_time() - began


@pytest.mark.parametrize("name", LOOKS)
def test_A6_time_grows_no_faster_than_the_text(name: str) -> None:
    look, slow = LOOKS[name], dict[str, float]()
    look("warm")
    for shape, make in SHAPES.items():
        if (long := _time(look, make(4 * SIZE))) > SLOW_S:
            short = max(_time(look, make(SIZE)) for _ in range(3))
            if long > MOST * short:
                long = min(_time(look, make(4 * SIZE)) for _ in range(3))
                slow |= {shape: long} if long > MOST * short else {}
    assert not slow


@pytest.mark.parametrize("shape", SHAPES)
def test_a_message_is_searched_for_quotations_at_once(shape: str) -> None:
    """Only its beginning is; that must be short enough, too."""
    assert _time(quoted.find_quoted, SHAPES[shape](1500)) < 0.6


@pytest.mark.parametrize("are_in_it", [True, False])
def test_a_message_with_many_parts_of_others_is_taken_apart_at_once(*, are_in_it: bool) -> None:
    """As large as a request may be."""
    piece = "".join(f"{number:05d} words of somebody else, " for number in range(170))
    parts = [f"{number} {piece}" for number in range(100)]
    text = "\n".join(parts if are_in_it else [piece] * 100)
    assert _time(lambda text: quoted.find_quoted(text, parts), text) < 0.2
