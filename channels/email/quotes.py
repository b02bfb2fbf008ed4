"""What is new in an answer, and what it quotes of earlier mails, by how it is built: lines behind
">", and the head of an earlier mail, below which all is old.

Answers that stand between quotes, or below them, are kept with the lines that they answer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, islice, takewhile

from mailparser_reply.parser import EmailMessage as Headers

from channels.email.mime import ParseLimit

LANGUAGES = ["en", "de", "fr", "es", "it", "pt", "nl", "pl"]
MAX_WINDOW, WINDOW_LINES, MAX_HEADS, HEAD_LINES = 1_500, 4, 2_000, 5
MAX_ANSWERED, MAX_KEPT = 600, 20_000
MORE = "> [...]"
QUOTED = re.compile(r"[ \t]{0,3}>")
RULES = ("--", "__", "==")
RULED = re.compile(r"\s*[-_=*]{2,}[^-_=*]{0,60}[-_=*]{2,}\s*")
LEAD = re.compile(r"(?=.*\d{4})(?=.*\d:\d\d)(?=.*<[^<>\s]+@[^<>\s]+>).*[:：]\s*")
"""A year, a time and an address, whatever the language."""
RULED_LEAD = re.compile(r"\s*-{2,}+(?=.*\d:\d\d)(?=.*\S@\S).*--\s*")
SIGNATURE = re.compile(r"-- ?|_{5,}")
LABELLED = re.compile(r"[ \t*]{0,4}\w[^:：\n]{0,30}[:：](.*)")
DATED = re.compile(r"\d.*@|@.*\d|\d{1,2}:\d\d|\d{4}")
WRITTEN = re.compile(rf"\S@\S|{DATED.pattern}")
TAGS = r"\s*(?:\[[^\[\]]{1,40}\]\s*){0,4}"
"""What servers and lists put before a subject, such as [EXTERNAL]."""
ADDRESS, YEAR = re.compile(r"\S@\S"), re.compile(r"\d{4}")
FORWARDED = re.compile(
    rf"{TAGS}(fwd?|wg|tr|rv|i|enc|doorst|vb|vl|vs|pd|[iİ]lt|пересл|转发|轉寄|轉發|転送|전달)\s*[:：]",
    re.IGNORECASE,
)
MARKS = re.compile(rf"{TAGS}(?:\w{{1,8}}(?:\[\d+\])?\s*[:：]\s*)+")


@dataclass(frozen=True, slots=True)
class Reply:
    """What is new, with the quotes that it answers, and what is left out of earlier mails.
    `passed`: the part of what is new that is an earlier mail, passed on.
    """

    new: str
    history: str = ""
    passed: str = ""


def cut_reply(text: str, subject: str, *, is_reply: bool) -> Reply:
    """The parts of a text. Who passes a mail on means all."""
    is_forward = FORWARDED.match(subject) is not None
    if not (is_reply or is_forward):
        return Reply(text)
    lines = text.split("\n")
    about = ParseLimit.attempt(lambda: MARKS.sub("", subject.strip(), count=1).casefold(), "")
    end = ParseLimit.attempt(lambda: _find_old(lines, about), 0 if is_forward else len(lines))
    if is_forward:
        return Reply(text, passed="\n".join(lines[end:]).strip())
    kept, left = ParseLimit.attempt(lambda: _keep_answers(lines[:end]), (lines[:end], list[str]()))
    if not any(_is_own(line) for line in kept):
        return Reply(text)
    return Reply("\n".join(kept).strip(), "\n".join((*left, *lines[end:])).strip())


def list_quotes(text: str) -> list[str]:
    """The runs of quoted lines in a text."""
    runs = groupby(text.split("\n"), key=lambda line: bool(QUOTED.match(line)))
    quotes = ("\n".join(run).strip() for is_quote, run in runs if is_quote)
    return [quote for quote in dict.fromkeys(quotes) if quote.strip("> \t\n")]


def _is_own(line: str) -> bool:
    return bool(line.strip()) and not QUOTED.match(line)


@cache
def _head_pattern() -> re.Pattern[str]:
    """Lines such as "On ..., Ann wrote:", and heads that begin with From, in eight languages."""
    return Headers(text="", languages=list(LANGUAGES)).HEADER_REGEX


def _find_old(lines: Sequence[str], about: str) -> int:
    """Where an earlier mail begins that no ">" marks: at its head. The end, where none does."""
    looked = at = 0
    while at < len(lines) and looked < MAX_HEADS:
        line = lines[at]
        if line.lstrip()[:2] in RULES:
            looked += 1
            if _leads_over(lines, at, about):
                return at
        if _is_own(line) and (line.rstrip().endswith((":", "：")) or LABELLED.match(line)):
            looked += 1
            if found := _find_head(lines, at, about):
                first, at = found
                following = next((one for one in islice(lines, at, None) if one.strip()), "")
                if not QUOTED.match(following):
                    return first
                continue
        at += 1
    return len(lines)


def _leads_over(lines: Sequence[str], at: int, about: str) -> bool:
    """A line between rules tells of an earlier mail: itself, or what is laid out below it."""
    line = lines[at][:MAX_WINDOW]
    if not RULED.fullmatch(line):
        return bool(RULED_LEAD.fullmatch(line))
    below = [one[:MAX_WINDOW] for one in islice(lines, at + 1, at + 12) if one.strip()]
    told = "\n".join(below[:HEAD_LINES]).casefold()
    laid_out = sum("|" in one or LABELLED.match(one) is not None for one in below[:HEAD_LINES])
    is_told = bool(about) and about in told and laid_out > 1 and bool(line.strip("-_=* \t"))
    return is_told and bool(ADDRESS.search(told) and YEAR.search(told))


def _find_head(lines: Sequence[str], at: int, about: str) -> tuple[int, int] | None:
    """(first line, line after it) of the head of an earlier mail, of which line `at` is the end, or
    the first with a label: by what it says, or because it names the mail's subject. It has a date
    or an address, as programs write it; people write "On Monday Ann wrote:" in their own words.
    """
    labelled = list(takewhile(LABELLED.match, islice(lines, at, at + 12)))
    first, last = at, at + max(1, len(labelled))
    values = [one[1].casefold() for line in labelled if (one := LABELLED.match(line))]
    is_named = len(labelled) >= 3 and bool(about) and any(about in one for one in values)
    if not is_named:
        start = at
        while start > max(0, at - WINDOW_LINES + 1) and _is_own(lines[start - 1]):
            start -= 1
        window = "\n".join(line.strip()[:MAX_WINDOW] for line in lines[start:last])[-MAX_WINDOW:]
        if found := _head_pattern().search(window):
            skipped = len(found[0]) - len(found[0].lstrip())
            first = last - window.count("\n", found.start() + skipped) - 1
        elif not LEAD.fullmatch(lines[at][:MAX_WINDOW]) or (at and lines[at - 1].strip()):
            return None
    if not any(map(WRITTEN.search, lines[first:last])):
        return None
    above = next((n for n in range(first - 1, max(-1, first - 3), -1) if lines[n].strip()), -1)
    return (above if above >= 0 and RULED.fullmatch(lines[above]) else first), last


def _keep_answers(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Without the quote below which nothing is said, and of other quotes what stands just above
    each answer. The second: what is left out.
    """
    quoted = [n for n, line in enumerate(lines) if QUOTED.match(line)]
    if not quoted:
        return list(lines), []
    end = len(lines)
    below = takewhile(lambda line: not SIGNATURE.fullmatch(line), lines[quoted[-1] + 1 :])
    if not any(map(_is_own, below)):
        end = quoted[-1]
        while end > 0 and not _is_own(lines[end - 1]):
            end -= 1
        end = _find_lead(lines, end)
    kept, left, room = list[str](), list[str](), MAX_KEPT
    for is_quote, run in groupby(lines[:end], key=lambda line: bool(QUOTED.match(line))):
        block = list(run)
        if is_quote:
            shown = _trim_quote(block, min(room, MAX_ANSWERED))
            room = max(0, room - sum(map(len, shown)))
            left += block if shown != block else []
            block = shown
        kept += block
    return kept, [*left, *lines[end:]]


def _trim_quote(block: Sequence[str], most: int) -> list[str]:
    """Its last lines."""
    shown: list[str] = []
    for line in reversed(block):
        room = most - sum(map(len, shown))
        if len(line) > room and shown:
            break
        shown.insert(0, line if len(line) <= max(room, 200) else f"> {line[-max(room, 200) :]}")
    return list(shown) if shown == list(block) else [MORE, *shown]


def _find_lead(lines: Sequence[str], end: int) -> int:
    """Where the lines begin that lead over to the quote at `end`: they say who wrote, and when."""
    if not end or not lines[end - 1].rstrip().endswith((":", "：")):
        return end
    if found := _find_head(lines, end - 1, ""):
        return found[0]
    return end - 1 if DATED.search(lines[end - 1]) else end
