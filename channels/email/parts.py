"""What a person reads of a mail, part by part, and its files.

Of the alternatives of one text the richest that says something counts: a plain text that leaves out
what the HTML beside it says is not the mail. What others wrote (a mail that is passed on, an
invitation) is told apart from the words of the sender.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from functools import partial
from itertools import islice, pairwise, takewhile

from channels.email.html_text import STRUCK, read_html
from channels.email.invitation import UNREADABLE, render_calendar
from channels.email.mime import (
    MAX_PARTS,
    ParseLimit,
    header,
    open_signed,
    parse,
    read_package,
    read_text,
)

MAX_FILES, MAX_NAMES, MAX_COMPARED = 20, 2_000, 100_000
COVERED, MUCH_MORE, MAX_STUB = 0.8, 8, 60
CALENDARS = ("text/calendar", "application/ics")
ADDRESSES = re.compile(r"\b(?:https?://|mailto:)[^\s<>)\]]+")
WHOLE_WORDS = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
WORD = re.compile(rf"[{WHOLE_WORDS}]|[^\W_{WHOLE_WORDS}]+")
"""A word; in scripts that put no spaces between words, a letter."""
TOKEN, ESCAPED = re.compile(r'[()]|"((?:[^"\\]|\\.)*)"|[^\s()"]+', re.DOTALL), re.compile(r"\\(.)")
PASSED_ON = "[A mail that came with it]"
ENCRYPTED = "[It is encrypted, and cannot be read here]"
SIGNED_KINDS = ("application/pkcs7-mime", "application/x-pkcs7-mime")
PACKAGE_KINDS = ("application/ms-tnef", "application/vnd.ms-tnef")
PACKED = "[Files in {name}: {files}]"


@dataclass(slots=True)
class MailContent:
    """What was found: the texts of the sender, those that others wrote, files; whether that is not
    all.
    """

    texts: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    files: list[dict[str, object]] = field(default_factory=list)
    is_cut: bool = False

    @property
    def text(self) -> str:
        """The words of the sender."""
        return "\n\n".join(self.texts)


def _add(texts: list[str], text: str) -> None:
    """A text, once."""
    if (text := text.strip()) and text not in texts:
        texts.append(text)


def list_content(message: EmailMessage) -> MailContent:
    """The text that a person reads, and the files."""
    found = MailContent()
    _try(message, "", found, is_body=True)
    del found.files[MAX_FILES:]
    return found


def _try(part: EmailMessage, number: str, into: MailContent, *, is_body: bool = False) -> None:
    """Read a part; one that breaks the reading takes nothing from the others."""
    is_broken = ParseLimit.attempt(lambda: _read(part, number, into, is_body), True)
    into.is_cut = into.is_cut or bool(is_broken)


def _read(part: EmailMessage, number: str, into: MailContent, is_body: bool) -> None:
    """A part under the number by which IMAP fetches it. `is_body`: it stands where a mail has its
    text, which some programs give a file name.
    """
    kind, is_tree = part.get_content_type(), part.get_content_maintype() == "multipart"
    children = [one for one in part.iter_parts() if isinstance(one, EmailMessage)]
    named = {f"{number}.{n}".strip("."): child for n, child in enumerate(children, 1)}
    if kind == "multipart/encrypted":
        _add(into.foreign, ENCRYPTED)
    if kind == "multipart/alternative" and children:
        _choose(named, into)
    elif is_tree and children:
        for name, child in named.items():
            _try(child, name, into)
    elif is_tree or is_text(part, is_body=is_body):  # a multipart without a boundary is one text
        text = read_text(part)
        text = read_html(text) if "html" in part.get_content_subtype() else text
        if not (kind == "text/html" and into.texts and covers(into.text, text)):
            _add(into.texts, text)
    else:
        _read_other(part, number or "1", children, into)


def _read_other(
    part: EmailMessage, number: str, mails: Sequence[EmailMessage], into: MailContent
) -> None:
    """What is no text of the mail: an invitation, a mail in the mail, a file."""
    kind = part.get_content_type()
    if kind in CALENDARS:
        method = str(ParseLimit.attempt(partial(part.get_param, "method", ""), ""))
        text = read_text(part)
        _add(into.foreign, ParseLimit.attempt(lambda: render_calendar(text, method), UNREADABLE))
        if not is_named(part):
            return
    if kind == "message/rfc822" and mails:
        _pass_on(_decode_mail(part, mails[0]), into)
    elif kind in SIGNED_KINDS:
        _open_signed(part, into)
    elif kind in PACKAGE_KINDS:
        _open_package(part, into)
    data = "" if mails else ParseLimit.attempt(lambda: str(part.get_payload()), "")
    into.files.append(describe(number, part, len("".join(data.split()).rstrip("="))))


def _decode_mail(part: EmailMessage, mail: EmailMessage) -> EmailMessage:
    """The mail in a part, which some servers encode against RFC 2046."""
    if header(part, "Content-Transfer-Encoding").casefold() != "base64":
        return mail
    return ParseLimit.attempt(lambda: parse(b64decode(str(mail.get_payload())))[0], mail)


def _open_signed(part: EmailMessage, into: MailContent) -> None:
    """The mail inside of a signature. Its files cannot be fetched one by one."""
    raw = ParseLimit.attempt(lambda: open_signed(_bytes_of(part)), b"")
    mail = parse(raw)[0]
    if not raw:
        _add(into.foreign, ENCRYPTED)
    elif "Content-Type" in mail:  # else a file was signed, not a mail
        said = MailContent()
        _try(mail, "", said, is_body=True)
        for text in said.texts:
            _add(into.texts, text)
        for text in said.foreign:
            _add(into.foreign, text)
        _name_packed(part, [str(one["name"]) for one in said.files], into)


def _open_package(part: EmailMessage, into: MailContent) -> None:
    """The package in which Outlook hides files and formatted text from others."""
    text, names = ParseLimit.attempt(lambda: read_package(_bytes_of(part)), ("", []))
    if not covers(into.text, text):
        _add(into.texts, text)
    _name_packed(part, names, into)


def _name_packed(part: EmailMessage, names: Sequence[str], into: MailContent) -> None:
    named = ", ".join(filter(None, names[:MAX_FILES]))
    if named:
        _add(into.foreign, PACKED.format(name=_file_name(part) or "it", files=named[:MAX_NAMES]))


def _bytes_of(part: EmailMessage) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _pass_on(mail: EmailMessage, into: MailContent) -> None:
    """A mail that came in a mail, with its head; its files belong to it."""
    said = MailContent()
    _try(mail, "", said, is_body=True)
    names = ("From", "To", "Date", "Subject")
    head = [f"{name}: {found}" for name in names if (found := header(mail, name))]
    words = "\n\n".join((*said.texts, *said.foreign))
    into.is_cut = into.is_cut or said.is_cut
    if words or head:
        _add(into.foreign, "\n".join((PASSED_ON, *head, "", words)))


def _choose(alternatives: Mapping[str, EmailMessage], into: MailContent) -> None:
    """Of alternatives the richest, whichever stands first, unless plain text says the same. What is
    far shorter than the plain text takes its place beside it. Files and invitations count in each.
    """
    plain, rich, others = list[MailContent](), list[MailContent](), list[MailContent]()
    for name, child in alternatives.items():
        found, kind = MailContent(), child.get_content_subtype()
        _try(child, name, found, is_body=True)
        into.files += found.files
        into.is_cut = into.is_cut or found.is_cut
        for text in found.foreign:
            _add(into.foreign, text)
        if says_something(found.text):
            is_rich = kind == "html" or (child.is_multipart() and kind != "plain")
            (plain if kind == "plain" else rich if is_rich else others).append(found)
    best: list[str] = []
    for one in [*plain, *rich] or others:
        said = "\n\n".join(best)
        if not best or STRUCK in one.text or not covers(said, one.text):
            words = len(WORD.findall(one.text))
            is_small = len(WORD.findall(said)) > max(MUCH_MORE * words, MAX_STUB)
            best = [*(best if is_small else ()), *one.texts]
    for text in best:
        _add(into.texts, text)


def says_something(text: str) -> bool:
    """It has a sign that can be seen."""
    return any(sign.isprintable() and not sign.isspace() for sign in text)


def covers(text: str, other: str) -> bool:
    """The text says nearly all that the other does, in the same order."""

    def compare() -> bool:
        theirs = _pairs(other)
        if not theirs:  # addresses or signs alone
            return other.strip() in text
        return len(theirs & _pairs(text)) >= COVERED * len(theirs)

    return ParseLimit.attempt(compare, False)


def _pairs(text: str) -> set[tuple[str, str]]:
    words = WORD.findall(ADDRESSES.sub(" ", text[:MAX_COMPARED]).casefold())
    return set(pairwise(words)) or {(one, "") for one in words}


def is_named(part: EmailMessage) -> bool:
    """It is a file."""
    return part.get_content_disposition() == "attachment" or bool(_file_name(part))


def is_text(part: EmailMessage, *, is_body: bool = False) -> bool:
    """It is words of the mail."""
    if part.get_content_maintype() != "text" or part.get_content_type() in CALENDARS:
        return False
    return part.get_content_disposition() != "attachment" if is_body else not is_named(part)


def _file_name(part: EmailMessage) -> str:
    return ParseLimit.attempt(lambda: " ".join(str(part.get_filename() or "").split()), "")


def describe(number: str, part: EmailMessage, size: int) -> dict[str, object]:
    """A file."""
    encoding = header(part, "Content-Transfer-Encoding").casefold()
    size = size * 3 // 4 if encoding == "base64" else size
    name, kind = _file_name(part)[:200], part.get_content_type()[:100]
    return {"number": number, "name": name, "mime": kind, "size": size, "encoding": encoding[:20]}


def read_structure(text: str) -> list[object]:
    """What a server tells as BODYSTRUCTURE, as lists of words and lists."""
    open_lists: list[list[object]] = [[]]
    for found in TOKEN.finditer(text):
        sign, quoted = found[0], found[1]
        if sign == "(":
            open_lists.append([])
            open_lists[-2].append(open_lists[-1])
        elif sign == ")" and len(open_lists) == 1:
            break  # the end of the answer that it stands in
        elif sign == ")":
            open_lists.pop()
        else:
            word = "" if sign.upper() == "NIL" else sign
            open_lists[-1].append(ESCAPED.sub(r"\1", quoted) if quoted is not None else word)
    return open_lists[0]


def list_described(entry: object, number: str = "") -> Iterator[tuple[str, EmailMessage, int]]:
    """Each part that is told of, with its head and its encoded size."""
    if not isinstance(entry, list) or not entry:
        return
    if isinstance(entry[0], list):
        for place, inner in enumerate(takewhile(lambda one: isinstance(one, list), entry), 1):
            yield from list_described(inner, f"{number}.{place}" if number else str(place))
        return
    kind, subtype, given, _, _, encoding, size = entry[:7]
    lists = (one for one in entry[7:] if isinstance(one, list) and len(one) > 1)
    shown = [one for one in lists if str(one[0]).lower() in ("attachment", "inline")]
    how, more = (shown or [["inline", ""]])[0][:2]
    lines = (
        f"Content-Type: {kind}/{subtype}{_parameters(given)}",
        f"Content-Disposition: {how}{_parameters(more)}",
        f"Content-Transfer-Encoding: {encoding}",
    )
    head = "\n".join(" ".join(line.split()) for line in lines)
    yield number or "1", parse(head.encode("utf-8", "replace"))[0], int(str(size))


def _parameters(given: object) -> str:
    words = [str(one).replace('"', "") for one in given] if isinstance(given, list) else []
    return "".join(
        f'; {name}="{text}"' for name, text in zip(words[::2], words[1::2], strict=False)
    )


def list_files(structure: str) -> list[dict[str, object]]:
    """The files of a mail of which only the beginning was read; sizes are in lines of 76 signs."""
    entry = next(iter(read_structure(structure)), [])
    parts = islice(list_described(entry), MAX_PARTS)
    found = (describe(n, part, size * 76 // 78) for n, part, size in parts if not is_text(part))
    return list(islice(found, MAX_FILES))
