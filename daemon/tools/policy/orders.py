"""What the owner's words order, as a typed list (trust.md, orders).

One call to the model a message, which sees the owner's words and names, never a stranger's text;
code compares its entries with each call. Consent is one layer: receivers are checked beside it.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import islice

from daemon.core import value
from daemon.core.trust import Effect
from daemon.tools.base import Tool
from daemon.tools.policy.addresses import (
    NamedValue,
    is_mail,
    iter_values,
    leads_outside,
    parse_number,
    parse_web_address,
    stands_in,
)
from daemon.tools.policy.provenance import Evidence, is_choice
from daemon.tools.stemming import split_words, stem

PURPOSE = "orders"
DECODER = json.JSONDecoder()
MAX_WORDS_CHARS, MAX_ENTRIES, MAX_LISTED = 6000, 40, 60
MAX_ANSWER_CHARS = 20_000
MAX_STARTS = 50
ANYWHERE = "*"
TELL_HERE = "answer"
SYSTEM = """\
You list what a person orders. You get the person's own words, and the tools of a program that \
works for the person.
Answer with a JSON list and nothing else, with an entry for each effect that the words order:
{"tool": NAME, "values": {PARAMETER: VALUE}, "sources": [SOURCE]}
- tool: the name of a tool below, "write" for any tool that makes or changes a file, or "answer" \
for what the words ask to be told in this chat.
- values: for each parameter that is listed with the tool what the words say, letter for letter \
as it stands there: an address, a number, or the name of a person, file or event ("Dentist" where \
the tool wants an id); a list for several. For "write": {"path": FILE}.
- sources: what of the person's own may be told there, because the words say so: a file of the \
words, the name of a tool below that reads it, or "earlier" for what was said or read before, \
where the words refer back to it ("send it to ...").
Words order what they tell the program to do now. A mention, a question, a report of what somebody \
did or said, a wish for later, a condition that is not known to hold, or a negation orders \
nothing; to read, open, explain or sum up something orders nothing either. Where nothing is \
ordered, answer []."""


@value
class Order:
    """One entry: a tool, or an effect, with what each argument may be as the words have it, and
    what may be told there. `values` has the argument's name, or ANYWHERE, and a value in each pair.
    `named`: the words have what the tool does ("stop"), as its name begins.
    """

    tool: str
    values: frozenset[tuple[str, str]]
    sources: frozenset[str] = frozenset()
    named: bool = False

    def allows(
        self, tool: Tool, effect: Effect, values: Sequence[NamedValue], evidence: Evidence
    ) -> bool:
        """Every value of the call that decides where it goes is one of the order's, or what the
        owner's contacts, records and look-ups have under its name, or the only one there is.
        """
        if self.tool == tool.name:
            own = self.values
        elif self.tool == effect.value and effect is Effect.WRITE and tool.meta.paths:
            own = frozenset((ANYWHERE, found) for _, found in self.values)
        else:
            return False
        critical, given = tool.meta.critical or (), {name for name, _ in values}
        if not {name for name, _ in self.values if name in critical} <= given:
            return False  # what the order says, and the call leaves to the tool
        sends = effect is not Effect.WRITE
        return all(
            (self.named and _is_only(tool, name, found))
            or any(
                spell(said) == spell(found) or evidence.has_under(said, name, found, sends=sends)
                for key, said in own
                if key in (name, ANYWHERE)
            )
            for name, found in values
        )


@value
class OrderQuestion:
    """What a model is asked: the owner's words, and the names of tools that act and that read."""

    words: tuple[str, ...]
    tools: Sequence[Tool]
    readers: Sequence[str] = ()

    def build_text(self) -> str:
        """As the model sees it."""
        whole = "\n".join(self.words)
        cut = "" if len(whole) <= MAX_WORDS_CHARS else " (cut here)"
        tools = [f"{one.name}({', '.join(_list_critical(one))})" for one in self.tools]
        return "\n".join(
            (
                f"Words: {json.dumps(whole[:MAX_WORDS_CHARS], ensure_ascii=False)}{cut}",
                f"Tools: {'; '.join(tools[:MAX_LISTED])}",
                f"Tools that read: {'; '.join(self.readers[:MAX_LISTED])}",
            )
        )

    def read_answer(self, text: str) -> tuple[Order, ...] | None:
        """The entries, with the values that stand in the owner's words; None for no list."""
        entries = _find_list(text)
        if entries is None:
            return None
        whole = [one for one in entries[:MAX_ENTRIES] if isinstance(one, dict)]
        return tuple(found for one in whole if (found := self._read_entry(one)))

    def _read_entry(self, entry: Mapping[str, object]) -> Order | None:
        named, given, sources = entry.get("tool"), entry.get("values"), entry.get("sources")
        if not isinstance(named, str):
            return None
        tool = next((one for one in self.tools if one.name == named), None)
        values = frozenset(
            (name, str(leaf))
            for name, part in (given.items() if isinstance(given, dict) else ())
            for _, leaf in iter_values(part, str(name))
            if self._is_said(leaf) or (tool and is_choice(tool, str(name), leaf))
        )
        told = frozenset(map(str, sources if isinstance(sources, list) else ()))
        verb, words = (
            split_words(named)[:1],
            [word for one in self.words for word in split_words(one)],
        )
        return Order(named, values, told, {*map(stem, verb)} <= {*map(stem, words)})

    def _is_said(self, found: str | float) -> bool:
        return any(stands_in(words, found) for words in self.words)


def _is_only(tool: Tool, name: str, found: str | float) -> bool:
    """No other value can be chosen now."""
    declared = tool.spec.parameters.get("properties")
    shape = declared.get(name) if isinstance(declared, Mapping) else None
    return isinstance(shape, Mapping) and shape.get("enum") == [found] and not tool.meta.source


def list_critical(tool: Tool, arguments: Mapping[str, object]) -> Sequence[str] | None:
    """The arguments that decide where the effect goes; one that is not declared may be anything."""
    declared = tool.spec.parameters.get("properties")
    if tool.meta.critical is None or not isinstance(declared, Mapping) or not declared:
        return tool.meta.critical
    return (*tool.meta.critical, *(name for name in arguments if name not in declared))


def name_words(words: Sequence[str]) -> str:
    """The same for the same words only."""
    return sha256(json.dumps(words).encode()).hexdigest()[:12]


def named_values(
    arguments: Mapping[str, object], critical: Sequence[str] | None
) -> tuple[NamedValue, ...]:
    """The plain values that decide where a call's effect goes."""
    chosen = (
        arguments if critical is None else {k: v for k, v in arguments.items() if k in critical}
    )
    return tuple(one for name, part in chosen.items() for one in iter_values(part, name))


def list_keys(tool: str, values: Sequence[NamedValue]) -> str:
    """What one deed is known by: the tool with each address that it goes to and the other values,
    however they are written; blanks between them.
    """
    plain = {(name, spell(found)) for name, found in values}
    outside = {(name, spell(found)) for name, found in values if leads_outside(found)}
    others = sorted(plain - outside)
    keys = ([tool, *one, others] for one in outside) if outside else [[tool, others]]
    return " ".join(sorted("deed:" + sha256(repr(key).encode()).hexdigest()[:32] for key in keys))


def _list_critical(tool: Tool) -> list[str]:
    declared = tool.spec.parameters.get("properties")
    names = list(declared) if isinstance(declared, Mapping) else []
    return names if tool.meta.critical is None else list(tool.meta.critical)


def _find_list(text: str) -> list[object] | None:
    """The first JSON list of a reply, with whatever stands around it; one entry alone is a list.

    It begins at one of the first brackets: each one tried may cost as much as the reply is long.
    """
    signs = enumerate(text[:MAX_ANSWER_CHARS])
    for at in islice((at for at, sign in signs if sign in "[{"), MAX_STARTS):
        try:
            found, _ = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            lists = [part for part in found.values() if isinstance(part, list)]
            return [found] if "tool" in found else lists[0] if len(lists) == 1 else None
        if all(isinstance(one, dict) for one in found):
            return found
    return None


def spell(found: str | float) -> str:
    """The same for all spellings of a value."""
    text = str(found).strip().removeprefix("./")
    if (number := parse_number(text)) is not None:
        return str(number.normalize())
    address = None if is_mail(text) else parse_web_address(text)
    if address and leads_outside(text):
        return f"{address.scheme or 'https'}://{address.host}{address.rest}"
    return text.casefold()
