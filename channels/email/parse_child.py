"""Reads mails from strangers: `python -I parse_child.py AUTHSERV_ID < mails > JSON lines`.

Runs as a child process that imports nothing of ours: broken MIME, and mails made to cost much, meet
little memory, little time, and nothing that may be written. For each mail the parent writes two
lengths in a line, the mail's bytes, and what the server tells of its parts, or nothing; the answer
is one line of JSON, made by `read_mail`.
"""

import json
import re
import resource
import signal
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from email import errors
from email.headerregistry import AddressHeader
from email.message import EmailMessage
from email.parser import BytesFeedParser
from email.policy import EmailPolicy
from email.utils import getaddresses, parsedate_to_datetime
from html.parser import HTMLParser
from itertools import islice, takewhile
from time import process_time
from typing import TypeVar

import authres
from mailparser_reply import EmailReplyParser

T = TypeVar("T")
MEMORY_BYTES, CPU_S, ALL_S, PIECE_S, LAST_S = 700_000_000, 8, 4.0, 1.5, 0.05
CHUNK, MAX_HEAD, MAX_LONG_VALUE, MAX_VALUE = 8_192, 100_000, 20_000, 4_000
MAX_TEXT, MAX_HTML, MAX_HEADER, MAX_PARTS, MAX_FILES = 100_000, 1_000_000, 900, 200, 20
MAX_REFERENCES, MAX_ID = 20, 250
MAX_REPLY_CHARS = 50_000
LANGUAGES = ["en", "de", "fr", "es", "it", "pt", "nl", "pl"]
MESSAGE_ID = re.compile(rf"<[!-;=?-~]{{1,{MAX_ID}}}>")
PLAIN_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
FORWARDED = re.compile(r"\s*(fwd?|wg|tr|rv|i|enc|doorst)\s*:", re.IGNORECASE)
HIDDEN_TAGS = frozenset(("script", "style", "head", "template", "noscript", "svg", "title"))
VOID_TAGS = frozenset(("br", "hr", "img", "meta", "link", "input", "area", "base", "col", "wbr"))
BLOCK_TAGS = frozenset(
    ("p", "div", "br", "li", "tr", "table", "blockquote", "h1", "h2", "h3", "h4", "pre", "ul", "ol")
)
HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d])",
    re.IGNORECASE,
)
MICROSOFT, MICROSOFT_METHODS = "microsoft", {"spf", "dkim", "dmarc", "compauth"}
MICROSOFT_PASS = re.compile(r"dmarc=pass action=[a-z.]{1,20} header\.from=([A-Za-z0-9.-]{1,253})")
QUOTED = re.compile(r'"[^"\\;()]*"')
COMMENT = re.compile(r'(?<![^ ;])\([^()"\\]*\)(?![^ ;])')
TWO_WAYS = (
    errors.FirstHeaderLineIsContinuationDefect, errors.MisplacedEnvelopeHeaderDefect,
    errors.MissingHeaderBodySeparatorDefect,
)  # fmt: skip
BY_ITS_SENDER = frozenset(("from", "to", "cc", "subject", "date", "message-id", "mime-version"))
TOKEN, ESCAPED = re.compile(r'[()]|"((?:[^"\\]|\\.)*)"|[^\s()"]+', re.DOTALL), re.compile(r"\\(.)")
BLANKS, LINES = re.compile(r"[^\S\n]+"), re.compile(r"\n[ \n]*\n")


class TooSlow(Exception):
    """A piece of a mail takes too long to read."""


BROKEN = (
    TooSlow, errors.MessageError, ValueError, LookupError, AttributeError, TypeError,
    AssertionError, RecursionError, OverflowError,
)  # fmt: skip


class Work:
    """The time of the processor that one mail gets, piece by piece."""

    ends = 0.0

    @staticmethod
    def stop(*_: object) -> None:
        """The time is over."""
        raise TooSlow

    @classmethod
    def attempt(cls, work: Callable[[], T], otherwise: T) -> T:
        """What `work` gives; `otherwise` where the mail is made to break it, or to take long."""
        try:
            left = max(LAST_S, min(PIECE_S, cls.ends - process_time()))
            signal.setitimer(signal.ITIMER_PROF, left)
            try:
                return work()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except BROKEN:
            return otherwise


class Careful(EmailPolicy):
    """Headers are cut to a length that is soon read; bytes in them are UTF-8, or what Windows
    writes; one that cannot be read is plain text.
    """

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """A header as it came."""
        name, text = super().header_source_parse(sourcelines)
        is_long = name.casefold() in ("references", "in-reply-to")
        raw = text[: MAX_LONG_VALUE if is_long else MAX_VALUE].encode("ascii", "surrogateescape")
        try:
            return name, raw.decode()
        except UnicodeError:
            return name, raw.decode("cp1252", "replace")

    def header_fetch_parse(self, name: str, value: str) -> str:
        """A header as it is read."""
        try:
            return super().header_fetch_parse(name, value)
        except BROKEN:
            return " ".join(value.split())


POLICY = Careful()


def parse(raw: bytes) -> tuple[EmailMessage, bool]:
    """The mail, up to as many parts as we look at, and whether that is all of it."""
    made: list[EmailMessage] = []

    def make(policy: EmailPolicy = POLICY) -> EmailMessage:
        made.append(EmailMessage(policy))
        return made[-1]

    parser = BytesFeedParser(make, policy=POLICY)
    at = 0
    while at < len(raw) and len(made) <= MAX_PARTS:
        parser.feed(raw[at : at + CHUNK])
        at += CHUNK
    message = parser.close()
    assert isinstance(message, EmailMessage)
    return message, at >= len(raw)


class TextOfHtml(HTMLParser):
    """What a person sees of an HTML mail, as plain text; links with their addresses."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self._hidden: list[str] = []
        self._href = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins; what is hidden counts the elements inside it."""
        named = dict(attrs)
        is_hidden = tag in HIDDEN_TAGS or "hidden" in named
        is_hidden = is_hidden or bool(HIDDEN_STYLE.search(named.get("style") or ""))
        if tag not in VOID_TAGS and (self._hidden or is_hidden):
            self._hidden.append(tag)
        if tag in BLOCK_TAGS and not self._hidden:
            self.words.append("\n- " if tag == "li" else "\n")
        if tag == "a" and not self._hidden:
            self._href = (named.get("href") or "").strip()

    def handle_endtag(self, tag: str) -> None:
        """An element ends; one that was never begun ends nothing."""
        if tag in self._hidden:
            while self._hidden.pop() != tag:
                pass
            return
        if tag == "a" and self._href.startswith(("http", "mailto:")):
            name = self.words[-1].strip() if self.words else ""
            self.words += [f" ({self._href})"] if name != self._href else []
        self._href = "" if tag == "a" else self._href
        if tag in BLOCK_TAGS:
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        """Text."""
        if not self._hidden:
            self.words.append(data)


def read_html(html: str) -> str:
    """The text of an HTML mail."""
    reader = TextOfHtml()
    Work.attempt(lambda: reader.feed(html[:MAX_HTML]), None)
    Work.attempt(reader.close, None)
    lines = (BLANKS.sub(" ", line).strip() for line in "".join(reader.words).splitlines())
    return LINES.sub("\n\n", "\n".join(lines)).strip()


def list_parts(message: EmailMessage, number: str = "") -> Iterator[tuple[str, EmailMessage]]:
    """Each part that holds something, under the number by which IMAP fetches it."""
    if message.get_content_maintype() != "multipart" or not message.is_multipart():
        yield number or "1", message
        return
    for place, part in enumerate(message.get_payload(), 1):
        if isinstance(part, EmailMessage):
            yield from list_parts(part, f"{number}.{place}" if number else str(place))


def read_text(part: EmailMessage) -> str:
    """The text of a part, whatever its charset claims."""
    data = part.get_payload(decode=True)
    raw = data[: 4 * MAX_HTML] if isinstance(data, bytes) else b""
    if any(isinstance(one, errors.InvalidBase64LengthDefect) for one in part.defects):
        letters = re.sub(rb"[^A-Za-z0-9+/]", b"", raw)
        raw = b64decode(letters[: len(letters) // 4 * 4])  # it breaks off
    charset = str(part.get_content_charset("") or "utf-8")
    for one in (charset, "utf-8"):
        for missing in range(4):  # a letter at its end may be cut in two
            data = raw[: len(raw) - missing]
            text = Work.attempt(lambda one=one, data=data: data.decode(one), None)
            if text is not None:
                return text
    return raw.decode("cp1252", "replace")


def header(message: EmailMessage, name: str) -> str:
    """A header in one line; "" for none."""
    return " ".join(str(message.get(name) or "").split())[:MAX_HEADER]


def read_sender(message: EmailMessage) -> tuple[str, str]:
    """The one address that it claims to be from, and the name beside it; "" where that is not
    plain: several of them, or two ways to read it.
    """
    raw = [str(text) for name, text in message.raw_items() if name.casefold().strip() == "from"]
    if len(raw) != 1 or len(raw[0]) >= MAX_VALUE:
        return "", ""
    flat = raw[0].replace("\r\n", "")
    if not flat.replace("\t", " ").isprintable():
        return "", ""
    read = message.get("From")
    groups = read.groups if isinstance(read, AddressHeader) else ()
    if len(groups) != 1 or groups[0].display_name is not None or getattr(read, "defects", ()):
        return "", ""
    found, others = groups[0].addresses[0], getaddresses([flat])
    address = found.addr_spec
    is_plain = PLAIN_ADDRESS.fullmatch(address) and flat.count("<") <= 1 and address in flat
    if not is_plain or len(others) != 1 or others[0][1].casefold() != address.casefold():
        return "", ""
    return address.casefold(), " ".join(found.display_name.split())[:100]


def list_statements(message: EmailMessage) -> Iterator[str]:
    """What servers say of who wrote it, from the top, as far as the sender has not written it."""
    for name, text in message.raw_items():
        kind = name.casefold().strip()
        if kind in BY_ITS_SENDER:
            return
        if kind == "authentication-results":
            yield re.sub(r"[ \t\r\n]+", " ", str(text)).strip(" ")


def find_proof(message: EmailMessage, sender: str, server: str) -> tuple[bool, str]:
    """Whether our own mail server says that this address wrote it, and why (trust.md): DMARC must
    have passed, or DKIM or SPF for the very domain.

    Only the topmost statement that bears its name counts. One that could be taken for ours, and is
    not as ours are, ends the search.
    """
    if not server:
        return False, "authserv_id is not set"
    if not sender:
        return False, "it does not say plainly who wrote it"
    domain, name = sender.rpartition("@")[2], re.escape(server)
    if server.casefold() == MICROSOFT:
        return find_microsoft_proof(message, domain)
    named = re.compile(rf"(?<![\w.-]){name}(?![\w.-])", re.IGNORECASE)
    ours = (one for one in list_statements(message) if named.search(one.partition(";")[0]))
    if not (said := next(ours, "")):
        return False, f"{server} says nothing of who wrote it"
    rest = COMMENT.sub("", QUOTED.sub("", said))
    is_plain = said.isascii() and said.isprintable() and not any(sign in rest for sign in '"\\()')
    is_plain = is_plain and bool(re.match(rf"{name}(?: 1)? ?;", said, re.IGNORECASE))
    try:
        line = f"Authentication-Results: {said}"
        results = authres.AuthenticationResultsHeader.parse(line).results if is_plain else None
    except (authres.AuthResError, *BROKEN):
        results = None
    if results is None or len(said) >= MAX_VALUE - 1_000:
        return False, f"what {server} says of who wrote it cannot be read"
    return judge_results(list(results), domain)


def find_microsoft_proof(message: EmailMessage, domain: str) -> tuple[bool, str]:
    """Microsoft's servers leave their name out, and give what came under that name another one:
    the topmost is theirs.
    """
    parts = [part.strip() for part in next(list_statements(message), "").split(";")]
    methods = [part.partition("=")[0].casefold() for part in parts if part]
    known = len(methods) == len(set(methods)) and set(methods) <= MICROSOFT_METHODS
    found = [one[1] for part in parts if (one := MICROSOFT_PASS.fullmatch(part))]
    if known and methods[:1] == ["spf"] and [one.casefold() for one in found] == [domain]:
        return True, "DMARC passed"
    return False, "DMARC did not pass"


def judge_results(results: list[object], domain: str) -> tuple[bool, str]:
    """By these results, the domain has written it. A failed DMARC beats all else."""
    said: dict[str, list[tuple[str, set[str]]]] = {}
    for one in results:
        method = str(getattr(one, "method", "")).casefold()
        result = str(getattr(one, "result", "")).casefold()
        names: set[str] = set()
        result = result if getattr(one, "version", None) in (None, "1") else "of another version"
        for prop in getattr(one, "properties", ()):
            kind = f"{prop.type}.{prop.name}".casefold()
            if (method, kind) in ALIGNED:
                names.add(str(prop.value).rpartition("@")[2].strip().rstrip(".").casefold())
        said.setdefault(method, []).append((result, names))
    if dmarc := said.get("dmarc"):
        is_pass = all(result == "pass" and names == {domain} for result, names in dmarc)
        return is_pass, "DMARC passed" if is_pass else "DMARC did not pass"
    for method in ("dkim", "spf"):
        for result, names in said.get(method, ()):
            if result == "pass" and names == {domain}:
                return True, f"{method.upper()} passed for {domain}"
    return False, f"neither DMARC, DKIM nor SPF passed for {domain}"


ALIGNED = {
    ("dmarc", "header.from"), ("dkim", "header.d"), ("dkim", "header.i"), ("spf", "smtp.mailfrom"),
}  # fmt: skip


def find_automatic(message: EmailMessage) -> str:
    """Why nobody is to answer it: a machine sent it; "" for a person's."""
    auto = header(message, "Auto-Submitted").casefold().partition(";")[0].strip()
    if auto not in ("", "no"):
        return f"Auto-Submitted: {auto}"
    precedence = header(message, "Precedence").casefold()
    if precedence in ("bulk", "junk", "list", "auto_reply"):
        return f"Precedence: {precedence}"
    for name in ("List-Id", "List-Unsubscribe", "X-Autoreply", "X-Autorespond", "Feedback-ID"):
        if header(message, name):
            return name
    if header(message, "Return-Path").replace(" ", "") == "<>":
        return "it has no return path"
    return "it is a delivery report" * (message.get_content_type() == "multipart/report")


def read_ids(message: EmailMessage, name: str) -> list[str]:
    """The message ids in a header."""
    raw = " ".join(str(text) for key, text in message.raw_items() if key.casefold() == name)
    return MESSAGE_ID.findall(raw[:20_000])


def cut_reply(text: str, subject: str, *, is_reply: bool) -> tuple[str, str]:
    """What is new in it, and what it quotes of earlier mails. Who passes a mail on means all."""
    if not is_reply or FORWARDED.match(subject) or len(text) > MAX_REPLY_CHARS:
        return text, ""
    reader = EmailReplyParser(languages=list(LANGUAGES))
    new = (Work.attempt(lambda: reader.parse_reply(text=text), "") or "").strip()
    at = text.find(new) if new else -1
    return (new, text[at + len(new) :].strip()) if at >= 0 else (text, "")


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


def _is_text(part: EmailMessage) -> bool:
    is_file = part.get_content_disposition() == "attachment" or _file_name(part)
    return not is_file and part.get_content_type() in ("text/plain", "text/html")


def _file_name(part: EmailMessage) -> str:
    return Work.attempt(lambda: " ".join(str(part.get_filename() or "").split()), "")


def _describe(number: str, part: EmailMessage, size: int) -> dict[str, object]:
    encoding = header(part, "Content-Transfer-Encoding").casefold()
    size = size * 3 // 4 if encoding == "base64" else size
    name, kind = _file_name(part)[:200], part.get_content_type()[:100]
    return {"number": number, "name": name, "mime": kind, "size": size, "encoding": encoding[:20]}


def list_content(message: EmailMessage) -> tuple[str, list[dict[str, object]]]:
    """The text that a person reads, and the files."""
    texts: list[str] = []
    pages: list[str] = []
    files: list[dict[str, object]] = []
    for number, part in islice(list_parts(message), MAX_PARTS):
        kind = part.get_content_type()
        if kind.startswith("multipart/") or (_is_text(part) and kind == "text/plain"):
            texts.append(read_text(part))  # a multipart without a boundary is one text
        elif _is_text(part):
            pages.append(read_html(read_text(part)))
        elif len(files) < MAX_FILES:
            data = (
                ""
                if part.is_multipart()
                else Work.attempt(lambda of=part: str(of.get_payload()), "")
            )
            files.append(_describe(number, part, len("".join(data.split()).rstrip("="))))
    plain = "\n\n".join(text.strip() for text in texts if text.strip())
    return plain or "\n\n".join(page for page in pages if page), files


def list_files(structure: str) -> list[dict[str, object]]:
    """The files of a mail of which only the beginning was read; sizes are in lines of 76 signs."""
    entry = next(iter(read_structure(structure)), [])
    parts = islice(list_described(entry), MAX_PARTS)
    found = (_describe(n, part, size * 76 // 78) for n, part, size in parts if not _is_text(part))
    return list(islice(found, MAX_FILES))


def read_mail(raw: bytes, server: str, structure: str = "") -> dict[str, object]:
    """What of a mail we need."""
    head = re.split(rb"\r?\n\r?\n", raw, maxsplit=1)[0][:MAX_HEAD]
    Work.ends = process_time() + ALL_S
    read = Work.attempt(lambda: parse(raw), None)
    message, is_whole = read or (parse(head)[0], False)
    sender, name = Work.attempt(lambda: read_sender(message), ("", ""))
    is_proven, why = find_proof(message, sender, server)
    is_odd = b"\0" in head or b"\r" in head.replace(b"\r\n", b"")
    if is_odd or any(isinstance(one, TWO_WAYS) for one in message.defects):
        is_proven, why = False, "its head can be read in more than one way"
    references = [*read_ids(message, "references"), *read_ids(message, "in-reply-to")]
    references = list(dict.fromkeys(references))
    if len(references) > MAX_REFERENCES:
        references = [references[0], *references[1 - MAX_REFERENCES :]]
    subject = header(message, "Subject")
    text, files = list_content(message) if read else ("", [])
    files = Work.attempt(lambda: list_files(structure), []) or files
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    is_cut = len(text) > MAX_TEXT or not is_whole
    new, history = cut_reply(text[:MAX_TEXT], subject, is_reply=bool(references))
    date = ""
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        date = parsedate_to_datetime(header(message, "Date")).isoformat()
    return {
        "sender": sender, "name": name, "shown_from": header(message, "From"),
        "proven": is_proven, "why": why, "subject": subject, "date": date,
        "id": next(iter(read_ids(message, "message-id")), ""), "references": references,
        "automatic": find_automatic(message), "list": header(message, "List-Id"),
        "to": header(message, "To"), "text": new, "history": history, "cut": is_cut, "files": files,
    }  # fmt: skip


def main() -> None:
    """Answer mail after mail until the input ends. Each has so much time of the processor."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGPROF, Work.stop)
    server = sys.argv[1] if len(sys.argv) > 1 else ""
    while line := sys.stdin.buffer.readline():
        raw, structure = (sys.stdin.buffer.read(int(size)) for size in line.split())
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime) + CPU_S
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        answer = json.dumps(read_mail(raw, server, structure.decode("latin-1")), ensure_ascii=False)
        sys.stdout.buffer.write(answer.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
