"""Where a text may be cut so that no letter, flag or emoji falls apart, and how wide letters are in
a monospaced font.
"""

import unicodedata

ZWJ = "\u200d"
MAX_GRAPHEME = 64
"""Characters of one grapheme: what piles up more (accents upon accents) may be cut."""


def may_cut(text: str, at: int) -> bool:
    """Whether what stands before `at` may be parted from what follows."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    if before < "\u0300" and after < "\u0300":
        return not (before == "\r" and after == "\n")
    if _extends(after) or before == ZWJ or _jamo(before, after) or _conjunct(before, after):
        return False
    return not (_flag(before) and _flag(after) and _flags_before(text, at) % 2)


def last_cut(text: str, at: int) -> int:
    """The last place up to `at` where the text may be cut; `at` itself where there is none nearby."""
    for place in range(at, max(at - MAX_GRAPHEME, 0), -1):
        if may_cut(text, place):
            return place
    return at


def width(text: str) -> int:
    """Columns in a monospaced font."""
    if text.isascii():
        return len(text)
    start, columns = 0, 0
    for at in range(1, len(text) + 1):
        if may_cut(text, at):
            columns += _columns(text[start:at])
            start = at
    return columns


def _columns(grapheme: str) -> int:
    first = grapheme[0]
    if "\ufe0f" in grapheme or _flag(first) or unicodedata.east_asian_width(first) in "WF":
        return 2
    return 0 if unicodedata.category(first) in ("Mn", "Me", "Cf") else 1


def _extends(char: str) -> bool:
    """Belongs to what stands before it: accents, joiners, variation selectors, skin tones, tags."""
    if (
        char == "\u200c"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
    ):
        return True
    return char == ZWJ or unicodedata.category(char)[0] == "M" or char in "\uff9e\uff9f"


def _jamo(before: str, after: str) -> bool:
    """Letters of one Hangul syllable."""
    if "\u1100" <= after <= "\u115f":
        return "\u1100" <= before <= "\u115f"
    return "\u1160" <= after <= "\u11ff" and (
        "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    )


def _conjunct(before: str, after: str) -> bool:
    """Letters that a virama binds, as in Hindi."""
    return unicodedata.combining(before) == 9 and unicodedata.category(after) == "Lo"


def _flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    start = at
    while start > max(at - MAX_GRAPHEME, 0) and _flag(text[start - 1]):
        start -= 1
    return at - start
