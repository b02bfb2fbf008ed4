"""When two names may be one and the same file, on this disk or another."""

import re
import unicodedata
from functools import lru_cache

UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]")


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """One spelling for all that some disk takes for this name: upper and lower case, composed and decomposed letters, letters
    in other widths, characters that nobody sees, dots and spaces at the end.
    """
    if name.isascii():
        return name.lower().rstrip(". ") or name
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    seen = "".join(char for char in UNSEEN.sub("", plain) if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", seen).rstrip(". ") or name
