"""Reads mails from strangers: `python -I parse_child.py AUTHSERV_ID < mails > JSON lines`.

Runs as a child process that imports nothing of ours but what reads a mail: broken MIME, and mails
made to cost much, meet little memory, little time, and nothing that may be written. For each mail
the parent writes two lengths in a line, the mail's bytes, and what the server tells of its parts,
or nothing; the answer is one line of JSON, made by `read_mail`.
"""

import json
import re
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC
from email import errors
from email.headerregistry import AddressHeader
from email.message import EmailMessage, Message
from email.utils import getaddresses, parsedate_to_datetime
from itertools import islice, takewhile
from pathlib import Path
from time import process_time

import authres

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))  # python -I knows only what is installed

from channels.email.mime import BROKEN, MAX_PARTS, MAX_VALUE, ParseLimit, header, parse, read_text
from channels.email.parts import MailContent, list_content, list_files
from channels.email.quotes import cut_reply, list_quotes

MEMORY_BYTES, CPU_S, ALL_S = 700_000_000, 8, 4.0
MAX_HEAD, MAX_TEXT, MAX_FOREIGN = 100_000, 100_000, 50_000
MAX_REFERENCES, MAX_ID = 20, 250
MESSAGE_ID = re.compile(rf"<[!-;=?-~]{{1,{MAX_ID}}}>")
PLAIN_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
MICROSOFT, MICROSOFT_METHODS = "microsoft", {"spf", "dkim", "dmarc", "compauth"}
MICROSOFT_PASS = re.compile(r"dmarc=pass action=[a-z.]{1,20} header\.from=([A-Za-z0-9.-]{1,253})")
QUOTED = re.compile(r'"[^"\\;()]*"')
COMMENT = re.compile(r'(?<![^ ;])\([^()"\\]*\)(?![^ ;])')
TWO_WAYS = (
    errors.FirstHeaderLineIsContinuationDefect, errors.MisplacedEnvelopeHeaderDefect,
    errors.MissingHeaderBodySeparatorDefect,
)  # fmt: skip
STATUS, MAX_PEOPLE = re.compile(r"[45]\.\d{1,3}\.\d{1,3}"), 20
TOLD_STATUS = re.compile(rf"(?<![\d.]){STATUS.pattern}(?!\.?\d)")
RECIPIENT = re.compile(rf"rfc822\s*;\s*<?({PLAIN_ADDRESS.pattern})>?", re.IGNORECASE)
QMAIL, FAILED = "Hi. This is the", re.compile(rf"<({PLAIN_ADDRESS.pattern})>:")
ID_LINE = re.compile(rf"^Message-ID:\s*({MESSAGE_ID.pattern})", re.IGNORECASE | re.MULTILINE)
BY_ITS_SENDER = frozenset(("from", "to", "cc", "subject", "date", "message-id", "mime-version"))


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


def list_people(message: EmailMessage) -> list[str]:
    """Whom it is addressed to, by To and Cc. One that stands there twice names nobody: who sends a
    signed mail on can add another on top.
    """
    people: list[str] = []
    for name in ("to", "cc"):
        raw = [str(text) for key, text in message.raw_items() if key.casefold().strip() == name]
        found = getaddresses([" ".join(raw[0].split())]) if len(raw) == 1 else []
        people += [one.casefold() for _, one in found if PLAIN_ADDRESS.fullmatch(one)]
    return list(dict.fromkeys(people))


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
    for name in ("List-Id", "List-Unsubscribe", "X-Autoreply", "X-Autorespond"):
        if header(message, name):
            return name
    if header(message, "Return-Path").replace(" ", "") == "<>":
        return "it has no return path"
    return "it is a delivery report" * (message.get_content_type() == "multipart/report")


def find_returned(mail: EmailMessage) -> dict[str, object] | None:
    """Of a report that a mail of ours did not arrive (RFC 3464): its id, for whom, and the status.
    None for any other mail, and for a report of a delay.
    """
    if mail.get_content_type() != "multipart/report":
        return _find_plain_return(mail)
    known, people, status = "", dict[str, object](), ""
    for part in islice(mail.walk(), MAX_PARTS):
        if part.get_content_type() == "message/delivery-status":
            for group in _list_groups(part):
                if header(group, "Action").casefold() == "failed":
                    if code := STATUS.search(header(group, "Status")):
                        status = code[0]
                    for name in ("Original-Recipient", "Final-Recipient"):
                        if one := RECIPIENT.search(header(group, name)):
                            people |= dict.fromkeys((one[1], one[1].casefold()))
        elif not known and part.get_content_type() in ("message/rfc822", "text/rfc822-headers"):
            known = _read_id(part)
    found: dict[str, object] = {"id": known, "people": list(people)[:MAX_PEOPLE], "status": status}
    return found if known and people else None


def _find_plain_return(mail: EmailMessage) -> dict[str, object] | None:
    """Of a report in one text, as qmail writes it (QSBMF), or Exim, which names the receivers in
    its head.
    """
    if mail.get_content_type() != "text/plain":
        return None
    text = told = read_text(mail)
    if text.startswith(QMAIL):
        paragraphs = list(takewhile(lambda one: not one.startswith("-"), text.split("\n\n")))
        people = [one[1] for paragraph in paragraphs if (one := FAILED.match(paragraph))]
        told = "\n\n".join(paragraphs)
    else:
        failed = header(mail, "X-Failed-Recipients")
        people = [one for _, one in getaddresses([failed]) if PLAIN_ADDRESS.fullmatch(one)]
    copy, status = ID_LINE.search(text), TOLD_STATUS.search(told)
    people = list(dict.fromkeys(form for one in people for form in (one, one.casefold())))
    if not (copy and people):
        return None
    return {"id": copy[1], "people": people[:MAX_PEOPLE], "status": status[0] if status else ""}


def _list_groups(part: Message) -> list[EmailMessage]:
    """Of a report the fields of each recipient, behind those of the report; else a mail in it."""
    groups = part.get_payload()
    groups = groups if isinstance(groups, list) else []
    return [one for one in groups if isinstance(one, EmailMessage)]


def _read_id(part: Message) -> str:
    if whole := _list_groups(part):
        return header(whole[0], "Message-ID")
    data = part.get_payload(decode=True)
    head = data[:MAX_HEAD].decode("latin-1") if isinstance(data, bytes) else ""
    found = ID_LINE.search(head)
    return found[1] if found else ""


def read_ids(message: EmailMessage, name: str) -> list[str]:
    """The message ids in a header."""
    raw = " ".join(str(text) for key, text in message.raw_items() if key.casefold() == name)
    return MESSAGE_ID.findall(raw[:20_000])


def read_mail(raw: bytes, server: str, structure: str = "") -> dict[str, object]:
    """What of a mail we need."""
    head = re.split(rb"\r?\n\r?\n", raw, maxsplit=1)[0][:MAX_HEAD]
    ParseLimit.ends = process_time() + ALL_S
    read = ParseLimit.attempt(lambda: parse(raw), None)
    message, is_whole = read or (parse(head)[0], False)
    sender, name = ParseLimit.attempt(lambda: read_sender(message), ("", ""))
    is_proven, why = find_proof(message, sender, server)
    is_odd = b"\0" in head or b"\r" in head.replace(b"\r\n", b"")
    if is_odd or any(isinstance(one, TWO_WAYS) for one in message.defects):
        is_proven, why = False, "its head can be read in more than one way"
    references = [*read_ids(message, "references"), *read_ids(message, "in-reply-to")]
    references = list(dict.fromkeys(references))
    if len(references) > MAX_REFERENCES:
        references = [references[0], *references[1 - MAX_REFERENCES :]]
    people = ParseLimit.attempt(lambda: list_people(message), [])
    subject = header(message, "Subject")
    found = list_content(message) if read else MailContent()
    files = ParseLimit.attempt(lambda: list_files(structure), []) or found.files
    reply = cut_reply(found.text, subject, is_reply=bool(references))
    others = "\n\n".join(found.foreign)
    is_cut = len(reply.new) > MAX_TEXT or len(others) > MAX_FOREIGN or found.is_cut or not is_whole
    new, others = reply.new[:MAX_TEXT], others[:MAX_FOREIGN].strip()
    text = "\n\n".join(part for part in (new, others) if part)
    quoted = [*list_quotes(new), *filter(None, (reply.passed[:MAX_TEXT].strip(), others))]
    date = ""
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        sent = parsedate_to_datetime(header(message, "Date"))
        date = (sent if sent.tzinfo else sent.replace(tzinfo=UTC)).isoformat()
    return {
        "sender": sender, "name": name, "shown_from": header(message, "From"),
        "proven": is_proven, "why": why, "subject": subject, "date": date,
        "id": next(iter(read_ids(message, "message-id")), ""), "references": references,
        "automatic": find_automatic(message), "list": header(message, "List-Id"),
        "to": header(message, "To"), "people": people, "text": text, "quoted": quoted,
        "history": reply.history[:MAX_TEXT], "cut": is_cut, "files": files,
        "returned": ParseLimit.attempt(lambda: find_returned(message), None),
    }  # fmt: skip


def main() -> None:
    """Answer mail after mail until the input ends. Each has so much time of the processor."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGPROF, ParseLimit.stop)
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
