"""Which parts of a person's message are their own words, and which are somebody else's text that
they pasted, piped in, passed on or quoted (trust.md): what is pasted is not said.

Nobody can tell for sure from the text alone, so what looks like another's counts as another's.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal

from daemon.core import value

Spans = tuple[tuple[int, int], ...]
"""(start, end) of parts of a text, in order and apart."""

MAX_SIGNS = 30
HIDDEN_SIGNS = "\u0f73\u0f75\u0f81\uff9e\uff9f"  # signs only once they are taken apart
LAST_COMBINING = 0x1F000
MAX_SHORT = 400
MAX_LINE = 1500
MAX_QUOTATION = 80
MAX_PARTS = 1000
CUT = "\ufffc"
BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"

SENDERS = (
    "from|reply-to|return-path|received|von|absender|de|expéditeur|remitente|da|mittente|van"
    "|afzender|от|от кого|od|nadawca|发件人|差出人"
)
HEADERS = (
    f"{SENDERS}|to|cc|bcc|subject|date|sent|message-id|an|kopie|betreff|datum|gesendet|à|objet"
    "|envoyé|para|asunto|fecha|enviado|a|oggetto|data|inviato|aan|onderwerp|verzonden|assunto"
    "|кому|тема|дата|do|temat|wysłano|收件人|主题|宛先|件名"
)
WROTE = (
    "wrote|writes|schrieb|geschrieben|a écrit|écrit|escribió|ha scritto|schreef|escreveu|написала?"
    "|пишет|napisał\\(?a?\\)?"
)
GREETING = (
    "hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening)|hallo|liebe[rs]?|guten"
    "|sehr geehrte[rs]?|bonjour|bonsoir|salut|ch[eè]re?s?|hola|estimad[oa]s?|querid[oa]s?|buenos"
    "|buenas|ciao|car[oaie]|gentile|buongiorno|beste|geachte|hoi|olá|prezad[oa]s?|здравствуйте"
    "|привет|уважаем\\w+|dzień dobry|cześć|drog[ai]|szanown[iay]"
)
FAREWELL = (
    "(?:best|kind|warm) (?:regards|wishes)|regards|sincerely|yours|mit freundlichen|gruß"
    "|(?:viele|liebe|beste) grüße|cordialement|bien à (?:vous|toi)|(?:un )?saludos?|atentamente"
    "|(?:cordiali|distinti) saluti|met vriendelijke|groeten|atenciosamente|с уважением"
    "|z poważaniem|pozdrawiam"
)
THIS = (
    "this|these|the following|diese[rsmn]?|folgende[rsn]?|cet|cette|ceci|est[ae]s?|esto|quest[aoei]"
    "|deze|dit|эт\\w+|here(?:['’]s| is| are)|hier (?:ist|sind)|voici|ecco|aquí está|got|received"
    "|erhalten|bekommen|reçu|recibí|recebi|ricevuto"
)
TEXTS = (
    "e-?mails?|mails?|messages?|texts?|sms|letters?|notes?|articles?|posts?|pages?|threads?|chats?|logs?"
    "|documents?|reviews?|comments?|tickets?|invoices?|nachricht|briefe?|rechnung|courriel|texte"
    "|lettre|correo|mensaje|texto|carta|messaggio|testo|lettera|bericht|tekst|mensagem|письмо"
    "|сообщение"
)
NEXT = f"\\n(?!\\s*(?:{CUT}|\\Z))"
LEAD = r"^[ \t*_#\[(]*"
FLAGS = re.IGNORECASE | re.MULTILINE
FROM_HERE = re.compile(
    rf"{LEAD}(?:{SENDERS})[ \t*_]*:"
    rf"|{LEAD}(?:{HEADERS})[ \t*_]*:[^\n]*\n{LEAD}(?:{HEADERS})[ \t*_]*:"
    rf"|^[^\n]*\b(?:{WROTE})\b[^\n]*:[ \t]*$"
    r"|^[ \t]*>>>"
    r"|^[ \t]*[-=_*#\u2500\u2550—–]{3}"
    r"|^[ \t]*<[!/?]?[a-z][\w-]*[\s>/]"
    rf"|(?<=\n)[ \t]*(?:{GREETING})\b(?:[ \t]+[^\s,!:]+){{0,3}}[ \t]*(?:[,!:.]|$)"
    rf"|(?<=:)[ \t*_]*{NEXT}",
    FLAGS,
)
"""From here on all is another's: a mail's head, its first lines, a ruled line, a document, what a
line announces that ends with a colon.
"""
ANNOUNCED = re.compile(
    rf"(?:^|\W)(?:(?:{THIS})(?:\W+\w+){{0,2}}\W+(?:{TEXTS})\b[^\n]*"
    rf"|(?:{THIS}|below|unten|ci-dessous)(?:[^\w\n]*|[^\n]*\?[ \t]*)){NEXT}",
    re.IGNORECASE,
)
"""A line that asks about what follows it: "sum up this mail", "what does this want?"."""
REWORD = (
    "translate|proof-?read|rephrase|reword|paraphrase|übersetzen?|lektorieren?|umformulieren"
    "|tradui[st]|traduire|traduisez|reformule[rz]?|traduce|traducir|reformula|traduci|traducete"
    "|tradurre|riformula|traduz|traduza|traduzir|reformule|vertaal|vertalen|herschrijf"
    "|przetłumacz|przeredaguj"
)
ASKED = re.compile(rf"\?[ \t]*{NEXT}|^[^\w\n]*(?:\w+\W+){{0,2}}(?:{REWORD})\b[^\n]*{NEXT}", FLAGS)
"""A line that ends with a question, or begins with an order to word something anew: what stands
below it is what it is about.
"""
WORKED_ON = (
    f"{REWORD}|sum(?:mari[sz]e)? ?(?:up)?|summari[sz]e|explain|fasse?|erklär[et]?|résume[rz]?"
    "|explique[rz]?|resume|resumir|explica|riassumi|spiega|resuma|vat|leg|streść|podsumuj|wyjaśnij"
)
INLINE = re.compile(
    rf"^[^\w\n]*(?:\w+\W+){{0,3}}(?:{WORKED_ON})\b[^\n:]{{0,60}}:[ \t]+(?=\S)"
    rf"|\b(?:{WROTE}|said|says|texted|sagte?|meint|dit|dijo|dice|ha detto|disse|zei|powiedział\w*)"
    rf"\b[^\n:]{{0,40}}:[ \t]+(?=\S)"
    rf"|\b(?:{THIS})(?:\W+\w+){{0,2}}\W+(?:{TEXTS})\b[^\n?]{{0,60}}\?[ \t]+(?=\S)",
    FLAGS,
)
"""In one line: "translate: ...", "she wrote: ...", "what do you make of this text? ..."."""
DO_LIST = re.compile(
    r"\s*((?:(?:please|now|ok|okay|bitte|s'il te plaît|por favor|per favore|proszę)[ ,]+)?"
    r"(?:do|mache?|erledige?|fais|haz|fai|faz|doe|zrób)(?: (?:this|these|the following|both|das"
    r"|dies|diese|folgendes|beides|ceci|cela|esto|questo|isto|dit|to))?"
    r"(?: (?:things|tasks|for me|please|bitte|für mich))?[ ]?:)[ \t]*"
    r"(?:\n[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+\w[^\n]{0,200}){1,10}\s*",
    re.IGNORECASE,
)
"""Nothing but a list of orders: "Please do:", and each line an item."""
SIGNED = re.compile(rf"(?<=\n)[ \t]*(?:{FAREWELL})\b[^\n]{{0,80}}$", FLAGS)
QUOTED_LINE = re.compile(r"^[ \t]*[>|›»❯❱〉≫│┃][^\n]*", FLAGS)
FENCE = re.compile(r"`{3,}|~{3,}")
OPENING = {"“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’", "「": "」", "『": "』", '"': '"'}
BEFORE_QUOTE = "([{=:-–—\"“„«'"


@value
class SaidParts:
    """A message taken apart: the person's own words, and the rest."""

    said: str
    quoted: str


def split_said(text: str, quoted: Spans) -> SaidParts:
    """The parts in these spans, and all others. No word is made of two that stood apart."""
    kept, at = [], 0
    for start, end in quoted:
        kept.append(text[at:start])
        at = end
    kept.append(text[at:])
    others = (text[start:end] for start, end in quoted)
    return SaidParts("\n".join(part for part in kept if part.strip()), "\n".join(others))


def find_quoted(text: str, data: Sequence[str] = (), own: str = "") -> Spans:
    """What of a message is not its sender's own words. `data` are parts that are known to be
    another's; where one does not stand in the text as it is, all of it counts as such. `own`: the
    end of the text, an earlier message of theirs that they answer.
    """
    if own and text.endswith(own):
        head = len(text) - len(own)
        parts = ((head + start, head + end) for start, end in find_quoted(own))
        return _merge([*find_quoted(text[:head], data), *parts])
    known = _find_given(text, data) if data else ()
    plain, offsets = _normalize(text, known)
    length = len(text) - sum(end - start for start, end in known)
    marked = ((offsets[start], offsets[end]) for start, end in _find_marked(plain, length))
    spans = [*known, *marked]
    return _merge(spans) if spans else ()


def is_typed(text: str, data: Sequence[str]) -> bool:
    """It begins with a word of the person: a command that was pasted is none."""
    first = len(text) - len(text.lstrip())
    return all(not start <= first < end for start, end in _find_given(text, data))


def fence_quoted(text: str, data: Sequence[str]) -> str:
    """The text with these parts marked, for where nothing but text is kept; all of it, where one
    does not stand in it.
    """
    spans = _find_given(text, [part.strip() for part in data])
    for start, end in reversed(spans):
        text = f"{text[:start]}\n```\n{text[start:end]}\n```\n{text[end:]}"
    return text


def _find_given(text: str, data: Sequence[str]) -> Spans:
    whole = (0, len(text))
    given: list[tuple[int, int]] = []
    for part in filter(str.strip, dict.fromkeys(data)):
        places = list(islice(_find_all(text, part), MAX_PARTS + 1 - len(given)))
        given += places
        if not places or len(given) > MAX_PARTS:
            return (whole,)
    return _merge(given)


def _find_all(text: str, part: str) -> Iterator[tuple[int, int]]:
    """The search of str, which takes a hundredth of the time of a pattern's."""
    at = text.find(part)
    while at >= 0:
        yield at, at + len(part)
        at = text.find(part, at + len(part))


def _normalize(text: str, known: Spans) -> tuple[str, Sequence[int]]:
    """The beginning of the text without the parts that are known, in plain characters: no line or
    mark is hidden by how it is written. With the place of each character; the last is the end.
    """
    if not known and len(text) <= MAX_LINE and text.isascii() and text.isprintable():
        return text, range(len(text) + 1)
    plain, offsets, at = list[str](), list[int](), 0
    for start, end in (*known, (len(text), len(text))):
        for index in range(at, min(start, at + MAX_LINE + 1)):
            char = text[index]
            if char in BREAKS:
                char = " " if text[index : index + 2] == "\r\n" else "\n"
            elif not char.isascii():
                hidden = char == CUT or unicodedata.category(char) in ("Cf", "Mn", "Me")
                char = "" if hidden else unicodedata.normalize("NFKC", char)
            plain.append(char)
            offsets += [index] * len(char)
        if end > start:
            plain.append(CUT)
            offsets.append(start)
        at = end
        if len(offsets) > MAX_LINE:
            break
    return "".join(plain), [*offsets, len(text)]


def _find_marked(plain: str, length: int) -> Iterator[tuple[int, int]]:
    """What is marked as another's, or too long to be an order; `length` is that of the whole."""
    if found := DO_LIST.fullmatch(plain):
        plain = f"{'.' * found.end(1)}{plain[found.end(1) :]}"  # it announces nobody else's text
    first = len(plain) - len(plain.lstrip())
    line = plain.find("\n", first)
    if length > MAX_SHORT and (length > MAX_LINE or line >= 0):
        yield line if 0 <= line - first <= MAX_SHORT else 0, len(plain)
    if found := FROM_HERE.search(plain):
        yield found.start(), len(plain)
    if found := ANNOUNCED.search(plain):
        yield found.end(), len(plain)
    if found := ASKED.search(plain):
        yield found.end(), len(plain)
    if found := INLINE.search(plain):
        yield found.end(), len(plain)
    if line >= 0 and SIGNED.search(plain):
        yield line, len(plain)
    fences = [one.span() for one in FENCE.finditer(plain)]
    if fences:  # what stands between two of them is perhaps no code, but part of what was pasted
        yield fences[0][0], fences[-1][1] if len(fences) % 2 == 0 else len(plain)
    yield from (one.span() for one in QUOTED_LINE.finditer(plain))
    if not OPENING.keys().isdisjoint(plain):
        yield from _find_quotations(plain)


def _find_quotations(plain: str) -> Iterator[tuple[int, int]]:
    """Long texts in quotation marks, those that stand within others included."""
    closings, begun = list[str](), 0
    for at, char in enumerate(plain):
        before, after = plain[max(at - 1, 0) : at], plain[at + 1 : at + 2]
        opens = char in OPENING
        if char == '"':
            opens = bool(after.strip()) and (not before.strip() or before in BEFORE_QUOTE)
        if closings and char in closings[-1] and not (opens and char == '"'):
            if char in '"’' and after.isalnum():
                continue  # an apostrophe
            closings.pop()
            if not closings and at - begun > MAX_QUOTATION:
                yield begun, at + 1
        elif opens:
            begun = begun if closings else at
            closings.append(OPENING[char])
    if closings and len(plain) - begun > MAX_QUOTATION:
        yield begun, len(plain)


def _merge(spans: Iterable[tuple[int, int]]) -> Spans:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(one for one in spans if one[0] < one[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


@lru_cache
def _combining() -> re.Pattern[str]:
    found = (chr(code) for code in range(0x300, LAST_COMBINING) if unicodedata.combining(chr(code)))
    return re.compile(f"[{''.join(map(re.escape, found))}{HIDDEN_SIGNS}]")


def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """In this form, in linear time: of more than 30 combining signs in a row the rest is left out,
    for to put them in order takes time by the square of their number.
    """
    if text.isascii():
        return text
    if not _combining().search(text):  # so are most
        return unicodedata.normalize(form, text)
    kept, signs = list[str](), 0
    for char in text:
        signs = signs + 1 if unicodedata.combining(char) or char in HIDDEN_SIGNS else 0
        if signs <= MAX_SIGNS:
            kept.append(char)
    return unicodedata.normalize(form, "".join(kept))
