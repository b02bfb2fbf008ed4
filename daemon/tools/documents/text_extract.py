"""Extracts the text of a document: `python -I text_extract.py MAX_CHARS < file > JSON`.

Runs as a child process that imports nothing of ours: documents from strangers are read with little
memory, little time and no right to write. Their kind is told by their content, not by their name.
"""

import json
import resource
import sys

import kreuzberg
from pypdfium2 import PdfDocument, PdfiumError

MEMORY_BYTES, CPU_S = 4_000_000_000, 20
NO_DOCUMENTS = ("image/", "audio/", "video/", "font/")
ARCHIVES = frozenset(
    ("application/zip", "application/x-tar", "application/gzip", "application/x-7z-compressed",
     "application/octet-stream")
)  # fmt: skip
LOCKED, DAMAGED = "it has a password", "it is damaged, or far too large"
EMPTY = "it has no text in it"
FAULTS = (kreuzberg.KreuzbergError, RuntimeError, ValueError)
PASSWORD = 4  # FPDF_ERR_PASSWORD


def extract(data: bytes, max_chars: int) -> dict[str, object]:
    """Its text, how long that was before it was cut, and how many pages have a number, or are
    pictures; or why it cannot be read, "" for what is no document.
    """
    if b"%PDF-" in data[:1024]:
        return _read_pdf(data, max_chars)
    try:
        kind = kreuzberg.detect_mime_type(data)
    except FAULTS:
        return {"why": ""}
    is_binary = kind == "text/plain" and b"\0" in data
    if kind.startswith(NO_DOCUMENTS) or kind in ARCHIVES or is_binary:
        return {"why": ""}
    config = kreuzberg.ExtractionConfig(output_format="markdown", use_cache=False)
    try:
        text = kreuzberg.extract_bytes_sync(data, kind, config=config).content
    except FAULTS as error:
        is_locked = any(word in str(error).lower() for word in ("password", "encrypt"))
        return {"why": LOCKED if is_locked else DAMAGED}
    text = _clean(text)
    if not text:
        return {"why": EMPTY}
    return {"text": text[:max_chars], "chars": len(text)}


def _read_pdf(data: bytes, max_chars: int) -> dict[str, object]:
    try:
        pages = [_clean(page.get_textpage().get_text_bounded()) for page in PdfDocument(data)]
    except PdfiumError as error:
        return {"why": LOCKED if error.err_code == PASSWORD else DAMAGED}
    if not any(pages):
        return {"text": "", "chars": 0, "pages": len(pages)}
    text = "\n\n".join(f"[page {number}]\n{text}" for number, text in enumerate(pages, 1))
    return {"text": text[:max_chars], "chars": len(text), "pages": len(pages)}


def _clean(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\0", "").strip()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    for forbidden in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(forbidden, (0, 0))
    sys.stdout.write(json.dumps(extract(sys.stdin.buffer.read(), int(sys.argv[1]))))
