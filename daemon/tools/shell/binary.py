"""Output of a command that is no text: told by size and kind, not shown (E6)."""

import re

SAMPLE = 8192
MOST_ODD, MOST_CONTROLS = 0.1, 0.01
# What text has not: control characters, several NULs together, what is no UTF-8.
ODD = re.compile("[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f\ufffd]|\0{2,}")
CONTROLS = re.compile(b"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]|\0{2,}")
ODD_BYTE = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f-\xff]")
KINDS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
    b"PK\x03\x04": "zip, or an office document",
    b"%PDF-": "PDF",
    b"\x7fELF": "a program",
    b"SQLite format 3": "an SQLite database",
    **dict.fromkeys((b"\x89PNG", b"\xff\xd8\xff", b"GIF8"), "a picture"),
    **dict.fromkeys((b"OggS", b"fLaC", b"ID3", b"RIFF"), "a recording"),
}


def is_binary(data: bytes | bytearray) -> bool:
    """More than a tenth of what it begins with is what text has not. Text in a code page of old
    has bytes that are no UTF-8, but no control characters.
    """
    if not ODD_BYTE.search(data, 0, SAMPLE):
        return False  # mostly
    head = bytes(data[:SAMPLE])
    text = head.decode("utf-8", "replace")
    odd = sum(len(found) for found in ODD.findall(text))
    controls = sum(len(found) for found in CONTROLS.findall(head))
    return odd > MOST_ODD * len(text) and controls > MOST_CONTROLS * len(head)


def describe_binary(data: bytes | bytearray, total: int) -> str:
    """What is said in its place; `total` is its size in bytes, `data` how it begins."""
    head = bytes(data[:SAMPLE])
    kind = next((name for begin, name in KINDS.items() if head.startswith(begin)), "")
    if head[257:262] == b"ustar":
        kind = "tar"
    return f"(binary output, {total:,} bytes, kind: {kind or 'unknown'}; it is not shown)"
