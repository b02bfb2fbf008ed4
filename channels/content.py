"""What a person sees in a message, whatever the platform: words with the addresses under them,
cards, polls, files, and what it points at.
"""

import mimetypes
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

from channels import value
from channels.message import Attachment, Reference

MAX_CARD, MAX_CONTENT = 10_000, 60_000
UNREADABLE_PART = "[something that cannot be shown here: {kind}]"
UNREADABLE_REFERENCE = "[it could not be read: {why}]"
DESCRIPTION = "[description of {name}: {text}]"
NO_WORDS = "[a mention without words]"
WORDLESS = UNREADABLE_PART.format(kind="a message without words")
EPOCH, MAX_SECONDS, PLACE = datetime(1970, 1, 1), 10**10, re.compile(r"\{(?:(time)|)[^{}]*\}")
STRUCK = "~~"
CUT = "\n[{count:,} more characters are left out here]"


@value
class Card:
    """A box under a message: a preview, an alert of a program."""

    title: str = ""
    text: str = ""
    url: str = ""
    author: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    footer: str = ""

    def render(self) -> str:
        """Line by line, as it is seen."""
        title = f"[{self.title}]({self.url})" if self.title and self.url else self.title or self.url
        lines = [self.author, title, self.text]
        lines += [f"{name}: {text}" if name else text for name, text in self.fields]
        shown = "\n".join(filter(str.strip, (*lines, self.footer)))
        return f"[card]\n{shorten(shown, MAX_CARD)}\n[end of the card]" if shown else ""


@value
class Poll:
    """A question with answers, or a list to tick off. `chosen`: marked answers, by place."""

    question: str
    options: tuple[str, ...]
    name: str = "poll"
    chosen: frozenset[int] = frozenset()

    def render(self) -> str:
        """The question, and an answer a line."""
        lines = [
            f"- {'[x] ' if place in self.chosen else ''}{option}"
            for place, option in enumerate(self.options)
        ]
        return "\n".join((f"[{self.name}: {self.question}]", *lines))


@value
class Content:
    """The neutral form of what stands in a message. `data`: parts of the text that the platform
    shows as quotations or code, and addresses under other words. `notes`: what is neither text nor
    file, in words; what cannot be read is named there.
    """

    text: str = ""
    data: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    polls: tuple[Poll, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[Attachment, ...] = ()

    @property
    def beside(self) -> tuple[str, ...]:
        """What stands beside the text, and its sender did not word: cards, polls and notes."""
        shown = chain(self.cards, self.polls)
        return (*(text for one in shown if (text := one.render())), *self.notes)

    def render(self, *, with_files: bool = False) -> str:
        """All of it as text; `with_files` names the files, where they are not handed on."""
        files = map(describe_file, self.files) if with_files else ()
        parts = (self.text, *self.beside, *files)
        return shorten("\n\n".join(filter(str.strip, parts)), MAX_CONTENT)

    def refer(self, kind: str, by: str, author: str, message_id: str) -> Reference:
        """The message as another points at it. Of one by the "sender" only the words are theirs:
        others chose what stands beside them, and the names of its files.
        """
        if by == "sender" and not self.data and self.text.strip():
            beside = replace(self, text="").render(with_files=True)
            return Reference(kind, shorten(self.text, MAX_CONTENT), by, author, message_id, beside)
        whole, by = self.render(with_files=True) or WORDLESS, "other" if by == "sender" else by
        return Reference(kind, whole, by, author, message_id)


def shorten(text: str, limit: int) -> str:
    """So many characters of it, and how many are left out."""
    left = len(text) - limit
    return text[:limit] + CUT.format(count=left) if left > 0 else text


def put_passed_first(
    text: str, passed: Sequence[Reference]
) -> tuple[str, str, bool, tuple[Reference, ...]]:
    """What a message says, by whom, and whether somebody else wrote it; and what else it passes on.
    Without words of its own it is the first that it passes on.
    """
    if text or not passed:
        return text, "", False, tuple(passed)
    return passed[0].text, passed[0].author, True, tuple(passed[1:])


def name_file(kind: str, number: object, mime: str) -> str:
    """Of a file without a name, or with one that people are not shown."""
    ending = ".ogg" if mime == "audio/ogg" else mimetypes.guess_extension(mime) or ".bin"
    return f"{kind}_{number}{ending}"


def show_moment(seconds: int, form: str = "{date} {time}") -> str:
    """A moment that each person sees in their own zone. What of `form` begins with "time" in braces
    becomes the time, all else in braces the day.
    """
    moment = EPOCH + timedelta(seconds=max(-MAX_SECONDS, min(MAX_SECONDS, seconds)))
    return PLACE.sub(
        lambda found: f"{moment:%H:%M UTC}" if found[1] else f"{moment:%Y-%m-%d}", form
    )


def describe_file(file: Attachment) -> str:
    """Its kind, name and size."""
    size = f", {max(1, file.size // 1000):,} kB" if file.size else ""
    return f"[{file.kind}: {file.name}{size}]"


def show_links(text: str, links: Sequence[tuple[int, int, str]]) -> tuple[str, tuple[str, ...]]:
    """The text with the address behind each part that has one, and those addresses: nobody has read
    them. `links`: (start, end, address) in characters; STRUCK in place of an address: of words that
    are struck out.
    """
    marks, hidden, ends = list[tuple[int, int, int, bool, str]](), list[str](), {True: 0, False: 0}
    for start, end, address in sorted(links):
        label, is_struck = text[start:end], address == STRUCK
        if (
            start < ends[is_struck]
            or end > len(text)
            or not label.strip()
            or address in (label, f"http://{label}")
        ):
            continue
        ends[is_struck] = end
        first, last = (STRUCK, STRUCK) if is_struck else ("[", f"]({address})")
        marks += ((start, 1, -end, not is_struck, first), (end, 0, -start, is_struck, last))
        hidden += [] if is_struck else [address]
    shown, at = list[str](), 0
    for place, *_, mark in sorted(marks):
        shown += (text[at:place], mark)
        at = place
    return "".join((*shown, text[at:])), tuple(hidden)
