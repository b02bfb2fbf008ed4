"""What private content a turn has read, and what it may tell outside (trust.md, private content).

Choosing among addresses carries information, so fetches have a budget of bits.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from daemon.core import value
from daemon.core.provenance import Origin, SourcedText, TrustContext
from daemon.core.trust import Effect, Label
from daemon.tools.base import Arguments, Tool, ToolError
from daemon.tools.calls import args_hash, parse_arguments
from daemon.tools.policy import consent
from daemon.tools.policy.provenance import Evidence, iter_values
from daemon.tools.policy.stemming import list_stems, stem, word_set
from daemon.tools.policy.text_values import (
    EDGES,
    TOOL_VERBS,
    WebAddress,
    find_addresses,
    find_dates,
    parse_web_address,
)
from daemon.tools.registry import ToolRegistry
from daemon.tools.web.guard import parse_address

SECOND_LEVELS = frozenset(["ac", "co", "com", "edu", "gob", "gov", "ltd", "ne", "net", "or", "org"])
WORD = re.compile(r"\w+")
EARLIER = "what this chat read before"
SAID = "what you said earlier in this chat"
MEMORY = "memory"
MINE = word_set("""
    my our mein meine meinen meiner meinem meines unser unsere unseren unserer mon ma mes notre nos
    mi mis nuestro nuestra nuestros nuestras mio mia miei mie nostro nostra nostri meu minha meus
    minhas nosso nossa nossos nossas mijn ons onze moj moja moje moich mojego nasz nasza nasze
""")
IT = word_set("""
    it them this these those summary answer result es dies dieses zusammenfassung ergebnis ceci cela
    ca resume resultat esto resumen respuesta resultado questo riassunto risultato isso isto resumo
    dit het samenvatting podsumowanie wynik
""")
REWORDS = word_set("""
    sum summarise summarize explain translate analyse analyze describe extract fass fasse erklare
    ubersetze resume resumer explique traduis resumir explica traduce riassumi spiega traduci resuma
    traduz vat vertaal podsumuj wyjasnij przetlumacz up compare count
""")
SHORT_TEXTS = (Origin.MEMORY, Origin.QUOTED)
MIN_ORDER_WORDS = 5
AGAIN_BITS = 3.0  # GET or HEAD, and one of four headers Accept
MAX_LOOKED_UP = 1000
MAX_LEFT_OUT = 4
MAX_RECEIPT = 200
READ = consent.READ - {"go"}
SEARCH_TOOL = "web_search"
ENDINGS = (".", "!", "?")
MAX_SAID = 6  # which of the owner's words each value is tells something, too
WHOLE_DATE = re.compile(r"(?:(?P<year>\d{4})-\d\d-\d\d)?(?:(?:^|[T ])\d\d:\d\d)?")


@value
class Cost:
    """What one fetch may tell, and whom."""

    bits: float
    domain: str


def is_private(setting: TrustContext, texts: Sequence[SourcedText]) -> bool:
    """Something of the owner's that is no public page was read; what they pasted before, too."""
    return any(text.private for text in (*list_earlier(setting), *setting.work, *texts))


def list_earlier(setting: TrustContext) -> list[SourcedText]:
    """What was pasted in another message is private now: this one is not about it."""
    return [
        replace(text, private=True) if text.origin is Origin.QUOTED else text
        for text in setting.earlier
    ]


def price_fetch(url: str, evidence: Evidence) -> Cost | None:
    """None for an address that the owner named; each further request of it tells something by its
    being made, and how.
    """
    address = parse_web_address(url)
    if evidence.is_owners("url", url, ""):
        asked = sum(_asks_for(text, address) for text in evidence.texts if text.tool)
        return Cost(AGAIN_BITS, "") if asked > 1 else None
    offered = {
        link
        for text in evidence.texts
        if text.origin is not Origin.MODEL and not (text.label is Label.TRUSTED and text.owned)
        for link in find_addresses(text.text).links
    }
    host = address.host.rpartition("@")[2] if address else url
    return Cost(math.log2(len(offered) + 1), registrable_domain(host))


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


def price_query(query: str, evidence: Evidence, orders: Sequence[str]) -> Cost | None:
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
    return Cost(len(wanted) * math.log2(min(sizes)), "a search engine")


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
    part of; before a bare "yes" also the message before, but none before a text that was pasted.
    Words that tell to read something are no bare yes.
    """
    own = list_own_words(setting, texts)
    earlier = [text.text for text in setting.earlier if is_owners_word(text)]
    words = _words(" ".join(own))
    is_bare = len(words) < MIN_ORDER_WORDS and READ.isdisjoint(words)
    is_bare = is_bare and bool(own) and all(text.origin is not Origin.QUOTED for text in texts)
    return [*earlier[-1:], *own] if is_bare else own


def list_own_words(setting: TrustContext, texts: Sequence[SourcedText]) -> list[str]:
    """What the owner said in this turn and in the work that it is part of."""
    return [text.text for text in (*setting.work, *texts) if is_owners_word(text)]


def is_strange(text: SourcedText) -> bool:
    """A stranger's text, which the model has not made itself."""
    return text.label is Label.UNTRUSTED and text.origin is not Origin.MODEL


def is_owners_word(text: SourcedText) -> bool:
    """The owner said it."""
    return text.origin is Origin.PERSON and text.owned and text.label is Label.TRUSTED


def list_sources(
    texts: Sequence[SourcedText], words: Evidence, values: Sequence[str], *, tainted: bool
) -> tuple[list[str], list[str]]:
    """The private sources behind these texts that the words do not name, and those that they do.

    A file is named by its path, the records of a tool by what they are ("my mails"). What was read
    before anything of a stranger's (`tainted`: that was at the beginning) was read for the owner
    alone. Memory has no name. What was looked up to learn where the deed goes (`values`) is none.
    """
    foreign: list[str] = []
    named: list[str] = []
    clean = set[str]()
    shown = [
        text
        for text in texts
        if text.private
        and not _was_looked_up(text, values, words)
        and not _is_receipt(text, words.registry)
    ]
    said = [one.text for one in words.texts]
    if any(
        text.origin is not Origin.RESULT
        and (text.origin not in SHORT_TEXTS or any(consent.list_telling(text.text, said)))
        for text in shown
    ):
        foreign.append(MEMORY)
    for source in dict.fromkeys(one for text in shown for one in text.holds):
        (named if _is_named(source, words) else foreign).append(source)
    private = {text.tool for text in shown if text.origin is Origin.RESULT}
    for text in texts:
        tainted = tainted or is_strange(text)
        if text.origin is not Origin.MODEL or text.tool not in private:
            continue
        try:
            arguments = parse_arguments(text.text)
        except ToolError:
            continue
        source, known = name_source(words.registry.get(text.tool), arguments, words, text.tool)
        call = args_hash(text.tool, arguments)
        if not tainted:
            clean.add(call)  # made again, it shows what it showed
        (named if known or call in clean else foreign).append(source)
    return foreign, named


def name_source(
    tool: Tool | None, arguments: Arguments, words: Evidence, name: str = ""
) -> tuple[str, bool]:
    """What a call shows of the owner's, and whether the words name it."""
    places: Sequence[str] = tool.meta.paths if tool else ()
    if tool and tool.meta.effect is Effect.FETCH:
        places = tool.meta.critical or ()
    if tool and places:
        paths = [str(arguments.get(name) or ".") for name in places]
        return ", ".join(paths), all(words.is_owners("path", path, tool.name) for path in paths)
    source = tool.name if tool else name
    return source, bool(_kinds_of(source) & _list_claimed(words.texts))


def _is_named(source: str, words: Evidence) -> bool:
    """By its path, or by what a tool's records are; of what a file may hold."""
    if words.registry.get(source):
        return bool(_kinds_of(source) & _list_claimed(words.texts))
    return all(words.is_owners("path", one, "read_file") for one in source.split(", "))


def _was_looked_up(text: SourcedText, values: Sequence[str], words: Evidence) -> bool:
    """A short, trusted text that tells an address which the owner did not."""
    unsaid = [
        one
        for one in values
        if consent.leads_outside(one) and not any(one in said.text for said in words.texts)
    ]
    is_short = len(text.text) <= MAX_LOOKED_UP and not is_strange(text)
    return is_short and any(one in text.text for one in unsaid)


def _is_receipt(text: SourcedText, registry: ToolRegistry) -> bool:
    """A short result that says what was done, of a tool that reads no file."""
    tool = registry.get(text.tool) if text.changes and len(text.text) <= MAX_RECEIPT else None
    return bool(tool and tool.meta.effect in (Effect.WRITE, Effect.EGRESS) and not tool.meta.paths)


def find_leaks(
    setting: TrustContext,
    texts: Sequence[SourcedText],
    orders: Evidence,
    everything: Evidence,
    values: Sequence[str],
    *,
    tainted: bool,
) -> tuple[list[str], list[str]]:
    """The private sources that would go along unordered, and those that the order names.

    What the chat read before may go along if the order names it, or while nothing of a stranger's
    has been read: then the order can only mean that. "Send it to bob" means what the message before
    names. `tainted`: the words about the tools are a
    stranger's.
    """
    tainted = tainted or any(map(is_strange, setting.earlier))
    foreign, named = list_sources((*setting.work, *texts), orders, values, tainted=tainted)
    said = [text for text in setting.earlier if is_owners_word(text)]
    if said and _refers_back(orders.texts):
        orders = replace(orders, texts=[*said[-1:], *orders.texts])
    if tells_unnamed(said, orders.texts):
        foreign.insert(0, SAID)
    earlier = list_earlier(setting)
    if not any(text.private for text in earlier):
        return foreign, named
    if tainted or any(map(is_strange, (*setting.work, *texts))):
        unnamed, known = list_sources(earlier, orders, values, tainted=True)
        return [*([EARLIER] if unnamed else []), *foreign], [*known, *named]
    before, known = list_sources(earlier, everything, values, tainted=False)
    return [*before, *foreign], [*known, *named]


def tells_unnamed(said: Sequence[SourcedText], orders: Sequence[SourcedText] = ()) -> bool:
    """One of the owner's messages tells what the orders neither repeat nor name ("my rent")."""
    words = [order.text for order in orders]
    named = {
        stem(noun) for text in map(_words, words) for word, noun in pairwise(text) if word in MINE
    }
    return any(
        any(consent.list_telling(text.text, words))
        and named.isdisjoint(map(stem, consent.list_telling(text.text)))
        for text in said
        if is_owners_word(text)
    )


def tells_of_self(texts: Sequence[SourcedText]) -> bool:
    """The owner speaks of themselves in it ("my diagnosis"), and says more than everyday words."""
    said = [text.text for text in texts if is_owners_word(text)]
    return any(
        not (MINE | consent.FIRST).isdisjoint(_words(text)) and any(consent.list_telling(text))
        for text in said
    )


def _refers_back(orders: Sequence[SourcedText]) -> bool:
    """ "Send it to bob", and nothing else to be read first that could be meant."""
    words = _words(" ".join(text.text for text in orders))
    return not IT.isdisjoint(words) and (READ - REWORDS).isdisjoint(words)


def _list_claimed(texts: Sequence[SourcedText]) -> frozenset[str]:
    """What the owner calls theirs: "mail" and "new" of "my new mails"."""
    claimed: set[str] = set()
    for text in texts:
        words = _words(text.text)
        for at, word in enumerate(words):
            if word in MINE:
                claimed |= {stem(one) for one in words[at + 1 : at + 4]}
    return frozenset(claimed)


def _kinds_of(tool: str) -> frozenset[str]:
    """What a tool's records are, by its name: {"unread", "mail"} for `get_unread_emails`."""
    nouns = list_stems(tool.rpartition("__")[2]) - frozenset(map(stem, TOOL_VERBS))
    return nouns | {"mail"} if "inbox" in nouns else nouns


def _words(text: str) -> list[str]:
    return [word.casefold() for word in WORD.findall(text)]


def holds_all(
    arguments: Mapping[str, object], critical: Sequence[str] | None, orders: Sequence[str]
) -> bool:
    """Whatever else the call sends stands whole in the owner's own words, letter for letter: how it
    is written could tell something, too. Dates and times may be written as services want them.
    """
    whole = "\n".join(orders)
    others = [part for name, part in arguments.items() if critical is None or name not in critical]
    leaves = [str(leaf).strip() for part in others for _, leaf in iter_values(part, "")]
    if len(leaves) > MAX_SAID or sum(map(len, leaves)) > len(whole):
        return False
    return all(_stands_in(whole, leaf) or _is_said_date(whole, leaf) for leaf in leaves)


def _is_said_date(whole: str, leaf: str) -> bool:
    """A date or time of the words, with their year, as services want it."""
    found = WHOLE_DATE.fullmatch(leaf)
    return bool(found and (found["year"] or "") in whole and find_dates(whole).holds(leaf))


def _stands_in(whole: str, leaf: str) -> bool:
    """As it is, but for the first letter's case and one sign at its end."""
    plain = leaf.removesuffix(leaf[-1]) if leaf[-1:] in ENDINGS else leaf
    forms = "|".join(re.escape(one + plain[1:]) for one in {plain[:1].lower(), plain[:1].upper()})
    return bool(re.search(rf"(?<!\w)(?:{forms})(?!\w)", whole))
