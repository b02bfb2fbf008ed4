"""Words by which texts are found, in any script."""

import re
from collections.abc import Collection, Iterable

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
MAX_WORDS = 32
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip


def list_words(text: str) -> list[str]:
    """Each once, in small letters, those of scripts without blanks left out."""
    return list(dict.fromkeys(WORD.findall(UNSPACED.sub(" ", text.casefold()))))


def list_pairs(text: str) -> list[str]:
    """Two neighbouring signs each, of scripts without blanks; one that stands alone, too."""
    runs = UNSPACED.findall(text)
    return [run[place : place + 2] for run in runs for place in range(max(len(run) - 1, 1))]


def list_telling(text: str, names: Collection[str] = ()) -> list[str]:
    """Words that carry meaning and are nobody's name; all of them where there is none."""
    found = list_words(text)
    kept = [one for one in found if one not in STOPWORDS]
    return [one for one in kept if one not in names] or kept or found


def match_words(words: Iterable[str], column: str = "", joint: str = "OR") -> str:
    """For FTS5: any of them, or with "AND" all; empty for no words."""
    quoted = f" {joint} ".join(f'"{word}"' for word in list(dict.fromkeys(words))[:MAX_WORDS])
    return f"{column} : ({quoted})" if quoted and column else quoted
