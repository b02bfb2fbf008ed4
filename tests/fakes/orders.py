"""What a model may answer when it is asked what the owner's words order (daemon/tools/policy/orders.py)."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
MAX_PHRASE = 8


@dataclass(frozen=True, slots=True)
class Question:
    """The question in its parts: the words, tools with parameters, tools that read."""

    words: str = ""
    tools: dict[str, list[str]] = field(default_factory=dict)
    readers: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> "Question":
        parts = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        listed = [line for line in parts["Tools"].split("; ") if line]
        words, _ = json.JSONDecoder().raw_decode(parts["Words"])
        readers = [one for one in parts["Tools that read"].split("; ") if one]
        return cls(words, {line.partition("(")[0]: _names(line) for line in listed}, readers)

    def phrases(self) -> list[str]:
        """Every run of a few words, with and without the signs around it."""
        words = self.words.split()
        return list(dict.fromkeys(_iter_phrases(words)))


def _names(line: str) -> list[str]:
    return [name for name in line.partition("(")[2].rstrip(")").split(", ") if name]


def _iter_phrases(words: list[str]) -> Iterator[str]:
    for size in range(1, MAX_PHRASE + 1):
        for at in range(len(words) - size + 1):
            phrase = " ".join(words[at : at + size])
            yield phrase
            yield re.sub(r"^\W+|[^\w/]+$", "", phrase)


def order_all(text: str, *, along: bool = True) -> str:
    """Yes to everything that the words could order, by any tool; and, with `along`, to everything that could go along."""
    asked = Question.of(text)
    values = asked.phrases()
    sources = ["earlier", *asked.readers, *values] if along else []
    names = {**asked.tools, "write": ["path"], **({"answer": []} if along else {})}
    sets = [(tool, given) for tool, given in names.items()]
    sets += [(tool, [one]) for tool, given in names.items() if len(given) > 1 for one in given]
    return json.dumps(
        [
            {"tool": tool, "values": {name: values for name in given}, "sources": sources}
            for tool, given in sets
        ]
    )
