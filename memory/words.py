"""Words by which texts are found, in any script."""

import re
from collections.abc import Collection, Iterable
from typing import Literal
from unicodedata import category, normalize

WORD = re.compile(r"\w+")
# Thai, Lao, Burmese, Khmer, Japanese, Chinese; Korean has blanks, but a word has many forms.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+"
)
STOPWORDS = frozenset(
    WORD.findall("""
    a about am an and any are as at be been but by can could did do does for from had has have
    he her his how i if in is it its me my of on or our she so some that the their them there
    they this to us was we were what when where which who whom whose why will with would you
    your please tell know remember recall
    """)
)
HIRAGANA = re.compile("[\u3040-\u309f]+")
LETTERS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")  # of Thai, Lao, Burmese, Khmer
# Hebrew and Arabic: an article is one with its word.
PREFIXED = re.compile("[\u0590-\u06ff]")
MAX_WORDS, LEAST_ROOT = 32, 3
LITTLE, BORDERS = 0.1, 0.3
LAST_LATIN = "\u0250"
MAX_JOINED = 40  # characters
# "wi-fi", "O'Brien", "18.17.1"; "LH 1234", "DE89 3704 0044"; "LH1234", "userName".
COMPOUND = re.compile(
    r"(?<![^\W_])[^\W_]+(?:[^\w\s][^\W_]+){0,2}[^\w\s](?:[^\W_]{2,}|\d)(?![^\W_])"
)
GROUPS = re.compile(r"(?<!\S)(?:[A-Z][A-Z-]{0,5}|[A-Z-]{0,5}\d\w*)(?: \d[\w-]*)+(?!\S\w)")
BORDER = re.compile(r"[a-z](?=[A-Z])")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Letters that Unicode does not take apart, and how some are spelled where they are missing.
PLAIN = str.maketrans({"ı": "i", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe"})
SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip


def list_words(text: str) -> list[str]:
    """Each once, in small letters, those of scripts without blanks left out."""
    return list(dict.fromkeys(WORD.findall(UNSPACED.sub(" ", _drop_marks(text.casefold(), "NFC")))))


def list_pairs(text: str) -> list[str]:
    """Two neighbouring signs each, of scripts without blanks; one that stands alone, too."""
    return [
        run[place : place + 2]
        for run in UNSPACED.findall(normalize("NFKC", text))
        for place in range(max(len(run) - 1, 1))
    ]


def write_forms(text: str) -> str:
    """What a text is found by beside its words, as it is indexed: pairs of signs and the last sign
    of each run, its words in other forms, and the parts of words such as "userName".
    """
    runs = UNSPACED.findall(normalize("NFKC", text))
    last = [run[-1] for run in runs if len(run) > 1]
    others = [form for forms in find_forms(text).values() for form in forms]
    words = WORD.findall(text) if BORDER.search(text) else ()
    mixed = [one for one in words if BORDER.search(one)]
    parts = [part.casefold() for one in mixed for part in PART.findall(one)]
    return " ".join([*list_pairs(" ".join(runs)), *dict.fromkeys([*last, *others, *parts])])


def find_forms(text: str) -> dict[str, list[str]]:
    """How else words of the text may be written: without accents and marks, with other letters for
    them, and as one with those beside them ("wi-fi", "LH 1234").
    """
    found: dict[str, list[str]] = {}
    for word in () if text.isascii() else list_words(text):
        forms = {word, _fold(word), _fold(word.translate(SPELLED))}
        if PREFIXED.match(word):
            forms |= {rest for rest in (word[1:], word[2:]) if len(rest) >= LEAST_ROOT}
        forms -= {word} if word in text.lower() else set()
        bare = _drop_marks(word, "NFD")  # of Latin letters the index takes them away itself
        found[word] = sorted(forms - {bare} if bare.isascii() and bare != word else forms)
    spaced = UNSPACED.sub(" ", _drop_marks(text, "NFC"))
    for piece in (*COMPOUND.findall(spaced), *GROUPS.findall(spaced)):
        joined = _fold("".join(WORD.findall(piece)))
        if len(joined) <= MAX_JOINED:
            for word in list_words(piece):
                found.setdefault(word, []).append(joined)
    return found


def _fold(text: str) -> str:
    """In small letters without accents, and in ordinary ones."""
    return _drop_marks(text.casefold(), "NFKD").casefold().translate(PLAIN)


def _drop_marks(text: str, form: Literal["NFC", "NFD", "NFKD"]) -> str:
    if text.isascii():
        return text
    return "".join(one for one in normalize(form, text) if category(one)[0] != "M")


def list_telling(text: str, names: Collection[str] = ()) -> list[str]:
    """Words that carry meaning and are nobody's name; all of them where there is none."""
    found = list_words(text)
    kept = [one for one in found if one not in STOPWORDS]
    return [one for one in kept if one not in names] or kept or found


def write_terms(text: str, words: Iterable[str]) -> list[str]:
    """For FTS5: each of these words of the text, in any of its forms. A sign that stands alone is
    found as the first of a pair, too.
    """
    forms = find_forms(text.upper() if text.isascii() else text)  # "lh 1234" is asked for, too
    return [" OR ".join(quote(one) for one in (word, *forms.get(word, ()))) for word in words]


def quote(word: str) -> str:
    """For FTS5."""
    is_sign = len(word) == 1 and UNSPACED.fullmatch(word)
    return f'"{word}"*' if is_sign else f'"{word}"'


def rate_term(term: str, *, said: bool) -> float:
    """How much of a word this is. Little is a letter ("what's"), and two signs of a script without
    blanks: in Hiragana, with which Japanese words end, or where nobody `said` them, which are
    mostly the border of two words.
    """
    signs = term.strip('"*')
    if UNSPACED.fullmatch(signs) and not LETTERS.fullmatch(signs):
        return LITTLE if HIRAGANA.fullmatch(signs) else 1.0 if said else BORDERS
    return LITTLE if len(signs) == 1 and signs.isalpha() else 1.0


def is_latin(text: str) -> bool:
    """At least half of its letters are."""
    letters = [one for one in text if one.isalpha()]
    return 2 * sum(one < LAST_LATIN for one in letters) >= len(letters)


def match_words(terms: Iterable[str], column: str = "", joint: str = "OR") -> str:
    """For FTS5: any of them, or with "AND" all; empty for none."""
    joined = f" {joint} ".join(f"({one})" for one in list(dict.fromkeys(terms))[:MAX_WORDS])
    return f"{column} : ({joined})" if joined and column else joined
