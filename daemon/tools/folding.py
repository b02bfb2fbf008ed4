"""When two names may be one and the same file, on this disk or another."""

import unicodedata

IGNORED = ("Cf", "Cc")


def folded(name: str) -> str:
    """One spelling for all that some disk takes for this name: upper and lower case, composed and decomposed letters, letters
    in other widths, characters that nobody sees, dots and spaces at the end.
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    seen = "".join(char for char in plain if unicodedata.category(char) not in IGNORED)
    return unicodedata.normalize("NFC", seen).rstrip(". ") or name
