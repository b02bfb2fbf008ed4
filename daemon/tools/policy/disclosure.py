"""What private content a turn has read, and what it may tell outside (trust.md, private content).

Choosing among addresses carries information, so fetches have a budget of bits.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from daemon.core import value
from daemon.core.provenance import Origin, SourcedText, TrustContext, is_owners_word
from daemon.core.trust import Label, Sources
from daemon.core.turn import Turn
from daemon.tools.base import ToolError
from daemon.tools.calls import parse_arguments
from daemon.tools.policy.addresses import (
    WebAddress,
    find_addresses,
    iter_values,
    parse_web_address,
    stands_in,
)
from daemon.tools.policy.provenance import Evidence
from daemon.tools.web.guard import parse_address

SECOND_LEVELS = frozenset(["ac", "co", "com", "edu", "gob", "gov", "ltd", "ne", "net", "or", "org"])
EDGES = ".,;:!?()[]{}<>\"'“”‘’«»`*~#…"
EARLIER = "what this chat read before"
EARLIER_SOURCE = "earlier"
SAID = "what you said earlier in this chat"
MEMORY = "memory"
AGAIN_BITS = 3.0  # GET or HEAD, and one of four headers Accept
MAX_LEFT_OUT = 4
SEARCH_TOOL = "web_search"
ENDINGS = (".", "!", "?")
QUESTION_SIGNS = ("?", "？", "؟")
MAX_SAID = 6  # which of the owner's words each value is tells something, too


@value
class DisclosureCost:
    """What one fetch may tell, and whom."""

    bits: float
    domain: str


def is_private(turn: Turn, setting: TrustContext) -> bool:
    """Something of the owner's that is no public page was read; what they pasted before, too."""
    return bool(turn.private) or any(text.origin is Origin.QUOTED for text in setting.earlier)


def list_earlier(setting: TrustContext) -> list[SourcedText]:
    """What was pasted in another message is private now: this one is not about it."""
    return [
        replace(text, private=True) if text.origin is Origin.QUOTED else text
        for text in setting.earlier
    ]


def price_fetch(url: str, evidence: Evidence, *, private: bool) -> DisclosureCost | None:
    """None for an address that the owner typed; once something of theirs may be told (`private`:
    some was read), each further request of it tells something by its being made, and how.
    """
    address = parse_web_address(url)
    if evidence.is_typed(url):
        asked = sum(_asks_for(text, address) for text in evidence.texts if text.tool)
        said = sum(map(is_owners_word, evidence.texts)) > 1
        return DisclosureCost(AGAIN_BITS, "") if asked > 1 and (said or private) else None
    offered = {
        link
        for text in evidence.texts
        if text.origin is not Origin.MODEL and not is_owners_word(text)
        for link in find_addresses(text.text).links
    }
    host = address.host.rpartition("@")[2] if address else url
    return DisclosureCost(math.log2(len(offered) + 1), registrable_domain(host))


def _asks_for(text: SourcedText, address: WebAddress | None) -> bool:
    """It is a call of the model's that names this address, however it is written."""
    if text.origin is not Origin.MODEL or address is None:
        return False
    try:
        arguments = parse_arguments(text.text)
    except ToolError:
        return False
    named = (parse_web_address(str(found)) for _, found in iter_values(arguments, ""))
    return any(one and (one.host, one.rest) == (address.host, address.rest) for one in named)


def price_query(query: str, evidence: Evidence, orders: Sequence[str]) -> DisclosureCost | None:
    """What the words of a search tell. Free is the first that takes the words of an order as they
    stand; others cost by the words that they could have been. Raises ValueError for words of the
    model's own.
    """
    wanted = query.split()
    own = [text.text for text in evidence.texts if is_owners_word(text)]
    strange = [text.text for text in evidence.texts if is_strange(text) and not text.private]
    searches = sum(
        text.origin is Origin.MODEL and text.tool == SEARCH_TOOL for text in evidence.texts
    )
    if searches < 2 and any(_is_part(wanted, text) for text in orders):
        return None
    vocabularies = [_list_tokens(text) for text in (" ".join(own), *strange)]
    sizes = [
        len(tokens)
        for tokens in vocabularies
        if set(wanted) <= tokens or set(wanted) <= {one.casefold() for one in tokens}
    ]
    if not sizes:
        raise ValueError(query)
    return DisclosureCost(len(wanted) * math.log2(min(sizes)), "a search engine")


def _is_part(wanted: Sequence[str], text: str) -> bool:
    """The words stand in the text in this order, few others between them; written as there, or all
    small.
    """
    for words in (text.split(), text.casefold().split()):
        places, rest = list[int](), enumerate(word.strip(EDGES) for word in words)
        places = [next((at for at, word in rest if word == one), -1) for one in wanted]
        if min(places, default=-1) >= 0 and places[-1] - places[0] < len(wanted) + MAX_LEFT_OUT:
            return True
    return False


def _list_tokens(text: str) -> frozenset[str]:
    return frozenset(word.strip(EDGES) for word in text.split()) - {""}


def registrable_domain(host: str) -> str:
    """The part of a name that somebody registers: example.co.uk of www.example.co.uk; an IP address
    with its port.
    """
    name = re.sub(r":\d+$", "", host).rstrip(".")
    if parse_address(name.strip("[]")):
        return host
    parts = name.split(".")
    long = len(parts) > 2 and len(parts[-1]) == 2 and parts[-2] in SECOND_LEVELS
    return ".".join(parts[-3 if long else -2 :])


def find_orders(setting: TrustContext, texts: Sequence[SourcedText]) -> list[str]:
    """The owner's words that may order something now: those of this turn and of the work that it is
    part of. Where they answer a question of ours, also the message that it was asked about, but
    none from before a text that was pasted.
    """
    own = list_own_words(setting, texts)
    said = [text for text in setting.earlier if text.tool == "" and text.text.strip()]
    asked = bool(said) and said[-1].origin is Origin.MODEL
    if not own or not asked or not said[-1].text.rstrip().endswith(QUESTION_SIGNS):
        return own
    if any(text.origin is Origin.QUOTED for text in texts):
        return own
    earlier = [text.text for text in said if is_owners_word(text)]
    return [*earlier[-1:], *own]


def list_own_words(setting: TrustContext, texts: Sequence[SourcedText]) -> list[str]:
    """What the owner said in this turn and in the work that it is part of."""
    return [text.text for text in (*setting.work, *texts) if is_owners_word(text)]


def is_strange(text: SourcedText) -> bool:
    """A stranger's text, which the model has not made itself."""
    return text.label is Label.UNTRUSTED and text.origin is not Origin.MODEL


def is_shown(text: SourcedText) -> bool:
    """Something of the owner's that no tool was called for: it came up by itself."""
    return text.origin is Origin.MEMORY or (text.private and text.origin is not Origin.RESULT)


@value
class Source:
    """Something of the owner's that may go along. `earlier`: it was said or read before the order;
    `name`: its file or tool, "" for words.
    """

    name: str
    shown: str
    earlier: bool = False

    def is_ordered(self, sources: frozenset[str], words: Sequence[str]) -> bool:
        """The order lets it go along: it names it, and a file stands in the owner's words."""
        if self.name in sources or (self.earlier and EARLIER_SOURCE in sources):
            return True
        named = all(path.removeprefix("./") in sources for path in self.name.split(", "))
        return named and self.stands_in(words)

    def stands_in(self, words: Sequence[str]) -> bool:
        """The owner's words have the path of every file."""
        return bool(self.name) and all(
            any(stands_in(said, path) for said in words) for path in self.name.split(", ")
        )


def find_leaks(
    setting: TrustContext,
    texts: Sequence[SourcedText],
    orders: Sequence[str],
    looked_up: Callable[[SourcedText], bool],
    *,
    carried: Sources,
    tainted: bool,
) -> list[Source]:
    """The private sources that may go along with a call. `carried`: what earlier turns had
    read, however long ago.

    What was read before anything of a stranger's (`tainted`: that was at the beginning) was read
    for the owner alone. What was `looked_up` to learn where the deed goes is none.
    """
    found: list[Source] = []
    if any(is_owners_word(text) and text.text not in orders for text in setting.earlier):
        found.append(Source("", SAID, earlier=True))
    earlier = list_earlier(setting)
    if any(map(is_shown, earlier)):
        found.append(Source("", EARLIER, earlier=True))
    before = [text for text in earlier if text.private or text.origin is Origin.MODEL]
    found += [Source(name, EARLIER, earlier=True) for name in _list_read(before, tainted=True)]
    whole = (*earlier, *setting.work, *texts)
    kept = {one for text in whole if text.private for one in (text.shows or MEMORY, *text.holds)}
    found += [Source(name, EARLIER, earlier=True) for name in carried if name not in kept]
    now = [text for text in (*setting.work, *texts) if not (text.private and looked_up(text))]
    shown = [*filter(is_shown, now)]
    if not all(_repeats(text.text, orders) for text in shown):
        found.append(Source("", MEMORY, earlier=True))
    tainted = tainted or any(map(is_strange, setting.earlier))
    found += [Source(name, name) for name in _list_read(now, tainted=tainted)]
    return list(dict.fromkeys(found))


def _list_read(texts: Sequence[SourcedText], *, tainted: bool) -> dict[str, None]:
    """The private files and tools behind the results in these texts. Calls that the model wrote
    before it had read anything of a stranger's were wanted by the owner: none is among them, nor is
    what shows again the very same.
    """
    found, clean = dict[str, None](), set[str]()
    strange = tainted
    for text in texts:
        if text.origin is Origin.MODEL:
            tainted = strange
        strange = strange or is_strange(text)
        if not (text.private and text.origin is Origin.RESULT):
            continue
        found.update(dict.fromkeys(text.holds))
        if not tainted:
            clean.add(text.text)
        elif text.text not in clean:
            found[text.shows] = None
    return found


def _repeats(text: str, orders: Sequence[str]) -> bool:
    """It tells no word that the orders have not."""
    said = " ".join(orders).casefold().split()
    return {word.strip(EDGES) for word in text.casefold().split()} <= {
        word.strip(EDGES) for word in said
    }


def holds_all(
    arguments: Mapping[str, object], critical: Sequence[str] | None, orders: Sequence[str]
) -> bool:
    """Whatever else the call sends stands whole in the owner's own words, letter for letter: how it
    is written could tell something, too.
    """
    whole = "\n".join(orders)
    others = [part for name, part in arguments.items() if critical is None or name not in critical]
    if len(others) > MAX_SAID or not all(isinstance(one, str | int | float) for one in others):
        return False
    leaves = [str(one) for one in others]
    if sum(map(len, leaves)) > len(whole) or any(isinstance(one, bool) for one in others):
        return False
    return all(_stands_in(whole, leaf) for leaf in leaves)


def _stands_in(whole: str, leaf: str) -> bool:
    """As it is, but for the first letter's case and one sign at its end."""
    plain = leaf.removesuffix(leaf[-1]) if leaf[-1:] in ENDINGS else leaf
    forms = "|".join(re.escape(one + plain[1:]) for one in {plain[:1].lower(), plain[:1].upper()})
    return bool(re.search(rf"(?<!\w)(?:{forms})(?!\w)", whole))
