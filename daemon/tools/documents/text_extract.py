"""Extracts the text of a document: `python -I text_extract.py MAX_CHARS KIND < file > JSON`.

Runs as a child process that imports nothing of ours: documents from strangers are read with little
memory, little time and no right to write. Their kind is told by their content, not by their name;
KIND is "" where the first bytes say it.
"""

import json
import re
import resource
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from ctypes import c_ushort
from io import BytesIO
from xml.etree.ElementTree import Element, ParseError, fromstring
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import kreuzberg
from pypdfium2 import PdfDocument, PdfiumError, PdfPage, raw

MEMORY_BYTES, CPU_S = 4_000_000_000, 20
NO_DOCUMENTS = ("image/", "audio/", "video/", "font/")
ARCHIVES = frozenset(
    ("application/zip", "application/x-tar", "application/gzip", "application/x-7z-compressed",
     "application/octet-stream")
)  # fmt: skip
ZIP = b"PK\x03\x04"
LOCKED, DAMAGED = "it has a password", "it is damaged, or far too large"
EMPTY = "it has no text in it"
FAULTS = (kreuzberg.KreuzbergError, RuntimeError, ValueError)
PASSWORD = 4  # FPDF_ERR_PASSWORD
OLE, ENCRYPTED = b"\xd0\xcf\x11\xe0", "EncryptedPackage".encode("utf-16-le")
WORD, WORD_XML = "wordprocessingml.document", "word/document.xml"
SHEETS = ("spreadsheetml", "ms-excel", "opendocument.spreadsheet")
# A time of day has the first day of Excel's calendar, a day midnight.
NO_DATE = re.compile(r"\b1899-12-3[01] (?=\d\d:\d\d)|(?<=\d) 00:00:00(?= *\|)")
SPACES = ("}p", "}tab", "}br", "}cr")
TAB = re.compile(rb"<w:(?:tab ?|cr ?|ptab\b[^<>]*)/>")
MAX_XML, MAX_NOTES, MAX_NOTE = 50_000_000, 500, 2_000
BESIDE = re.compile(r"(?:word|xl)/(?:comments/)?(header|footer|comment)s?\d*\.xml")
ZIP_FAULTS = (BadZipFile, KeyError, zlib.error, ParseError, NotImplementedError, RuntimeError)
PLAIN_KINDS = ("presentationml", "rfc822")
"""Kinds of which only the plain form is whole: with the notes of a speaker, without escapes."""
TICKED = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)


def extract(data: bytes, max_chars: int, kind: str) -> dict[str, object]:
    """Its text, how long that was before it was cut, and how many pages have a number, or are
    pictures; or why it cannot be read, "" for what is no document.
    """
    if b"%PDF-" in data[:1024] and not kind:
        return _read_pdf(data, max_chars)
    if data.startswith(OLE) and ENCRYPTED in data:
        return {"why": LOCKED}
    try:
        kind = kind or kreuzberg.detect_mime_type(data)
    except FAULTS:
        return {"why": ""}
    is_binary = kind == "text/plain" and b"\0" in data
    if kind.startswith(NO_DOCUMENTS) or kind in ARCHIVES or is_binary:
        return {"why": ""}
    form = "plain" if any(one in kind for one in PLAIN_KINDS) else "markdown"
    config = kreuzberg.ExtractionConfig(output_format=form, use_cache=False)
    try:
        data = _keep_tabs(data) if WORD in kind else data
        found = kreuzberg.extract_bytes_sync(data, kind, config=config)
    except FAULTS as error:
        is_locked = any(word in str(error).lower() for word in ("password", "encrypt"))
        return {"why": LOCKED if is_locked else DAMAGED}
    text, files = _clean(found.content), found.metadata.get("attachments")
    if files:
        text += f"\n\n[files in it: {', '.join(map(str, files))[:MAX_NOTE]}]"
    if any(one in kind for one in SHEETS):
        text = NO_DATE.sub("", text)
    beside = [*dict.fromkeys(_list_beside(data))] if data.startswith(ZIP) else []
    heads = [one for one in beside if one.startswith("[header")]
    parts = [*heads, text, *(one for one in beside if one not in heads)]
    text = "\n\n".join(one for one in parts if one)
    if not text:
        return {"why": EMPTY}
    return {"text": text[:max_chars], "chars": len(text)}


def _keep_tabs(data: bytes) -> bytes:
    """Word's tabs as text: what they hold apart runs together else."""
    file = BytesIO(data)
    with suppress(BadZipFile, KeyError, zlib.error), ZipFile(file, "a", ZIP_DEFLATED) as archive:
        entry = archive.getinfo(WORD_XML)
        if entry.file_size <= MAX_XML:
            text = TAB.sub(b'<w:t xml:space="preserve">\t</w:t>', archive.read(entry))
            archive.filelist.remove(entry)
            del archive.NameToInfo[WORD_XML]
            archive.writestr(WORD_XML, text)
    return file.getvalue()


def _list_beside(data: bytes) -> Iterator[str]:
    """What stands above and below the pages of an office file, and what its readers have noted."""
    with suppress(*ZIP_FAULTS), ZipFile(BytesIO(data)) as archive:
        for entry in archive.infolist():
            found = BESIDE.fullmatch(entry.filename)
            if not found or entry.file_size > MAX_XML:
                continue
            whole = fromstring(archive.read(entry))
            notes = whole.findall(".//{*}comment")[:MAX_NOTES]
            for part in notes if found[1] == "comment" else [whole]:
                who = (one for name, one in part.items() if name.endswith(("}author", "ref")))
                if said := _join_words(part):
                    yield f"[{found[1]}{''.join(f' ({one})' for one in who)}: {said}]"


def _join_words(part: Element) -> str:
    for double in part.findall(".//{*}AlternateContent"):  # of a text box, for older programs
        for older in double.findall("{*}Fallback"):
            double.remove(older)
    pieces = (one.text or "" if one.tag.endswith("}t") else " " * one.tag.endswith(SPACES)
              for one in part.iter())  # fmt: skip
    return " ".join("".join(pieces).split())[:MAX_NOTE]


def _read_pdf(data: bytes, max_chars: int) -> dict[str, object]:
    try:
        document = PdfDocument(data)
        document.init_forms()
        pages = [_read_page(document, page) for page in document]
    except PdfiumError as error:
        return {"why": LOCKED if error.err_code == PASSWORD else DAMAGED}
    if not any(pages):
        return {"text": "", "chars": 0, "pages": len(pages)}
    text = "\n\n".join(f"[page {number}]\n{text}" for number, text in enumerate(pages, 1))
    return {"text": text[:max_chars], "chars": len(text), "pages": len(pages)}


def _read_page(document: PdfDocument, page: PdfPage) -> str:
    text = _clean(page.get_textpage().get_text_bounded())
    return "\n".join(filter(None, (text, *_list_notes(document, page))))


def _list_notes(document: PdfDocument, page: PdfPage) -> Iterator[str]:
    """What is filled in, and what readers have noted."""
    for number in range(min(MAX_NOTES, raw.FPDFPage_GetAnnotCount(page))):
        note, form = raw.FPDFPage_GetAnnot(page, number), document.formenv
        kind = raw.FPDFAnnot_GetFormFieldType(form, note) if form else -1
        if kind in TICKED and raw.FPDFAnnot_IsChecked(form, note):
            yield f"[ticked: {_name_field(form, note)}]"
        elif kind > 0 and (held := _read_string(raw.FPDFAnnot_GetFormFieldValue, form, note)):
            if kind not in TICKED:
                yield f"[{_name_field(form, note)}: {held}]"
        elif kind <= 0 and (said := _read_string(raw.FPDFAnnot_GetStringValue, note, b"Contents")):
            yield f"[note: {said}]"
        raw.FPDFPage_CloseAnnot(note)


def _name_field(form: object, note: object) -> str:
    told = raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName
    return next(filter(None, (_read_string(one, form, note) for one in told)), "a field")


def _read_string(get: Callable[..., int], *of: object) -> str:
    """PDFium first tells how many bytes it is, in UTF-16 and with a zero at its end."""
    size = get(*of, None, 0)
    held = (c_ushort * (size // 2 + 1))()
    get(*of, held, size)
    return _clean(bytes(held)[:size].decode("utf-16-le", "replace"))[:MAX_NOTE]


def _clean(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\0", "").replace("&#9;", "\t").strip()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    for forbidden in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(forbidden, (0, 0))
    sys.stdout.write(json.dumps(extract(sys.stdin.buffer.read(), int(sys.argv[1]), *sys.argv[2:])))
