"""Comparable words: `deleteEmails`, `delete_email` and "deletes e-mails" are the same."""

import re
from functools import lru_cache

WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_]+")
E_MAIL = re.compile(r"(?<![A-Za-z])e[-_]mail", re.IGNORECASE)
VOWEL = re.compile(r"[aeiouy]")
IRREGULAR = {
    "sent": "send", "paid": "pay", "bought": "buy", "spent": "spend", "ran": "run",
    "wrote": "write", "written": "write", "using": "use", "used": "use",
    "people": "person", "children": "child", "media": "medium",
}  # fmt: skip
SYNONYMS = (
    "mail mailbox inbox outbox letter message draft imap smtp newsletter correspondence",
    "message chat dm sms text conversation channel thread",
    "file folder directory document doc path attachment",
    "calendar event meeting appointment invite invitation agenda schedule",
    "money payment pay transaction transfer invoice bill bank banking fund purchase buy price card"
    " iban wallet "
    "subscription checkout amount spend spending donation refund shop cart usd euro dollar billing",
    "contact address",
    "command shell terminal bash exec script process program console",
    "repository repo git branch commit code",
    "database db sql table record row",
    "photo picture image album",
    "post tweet twitter status feed",
    "web website site page url internet browser http",
    "note memo notebook",
    "task todo reminder ticket issue",
    "package dependency library module",
    "account user profile",
    "password secret credential key token",
    "call phone telephone",
    "reservation booking flight hotel ticket travel trip",
)


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """The word without its ending; every kind of mail is mail."""
    word = IRREGULAR.get(word.casefold(), word.casefold())
    if word.endswith("mails"):
        word = word[:-1]
    if word.endswith("mail") and len(word) < len("voicemails"):
        return "mail"
    root = _strip_ending(word)
    root = root[:-1] if root.endswith("e") and len(root) > 3 else root
    return f"{root[:-1]}i" if root.endswith("y") and len(root) > 3 else root


@lru_cache(maxsize=1024)
def list_stems(text: str) -> frozenset[str]:
    """The stems of all words in a name or a sentence."""
    return frozenset(stem(piece) for piece in split_words(text))


def split_words(text: str) -> list[str]:
    """Its words as they stand: names are cut at `_`, `-`, `.` and where a capital letter begins a
    word.
    """
    return WORD.findall(E_MAIL.sub("email", text))


@lru_cache(maxsize=1024)
def list_synonyms(word: str) -> tuple[str, ...]:
    """Words that may mean the same thing, as a person is told them."""
    own = stem(word)
    lines = (line.split() for line in SYNONYMS)
    return tuple(
        dict.fromkeys(
            other
            for line in lines
            if own in map(stem, line)
            for other in line
            if stem(other) != own
        )
    )


def word_set(text: str) -> set[str]:
    """The words of a line."""
    return set(text.split())


def _strip_ending(word: str) -> str:
    """Plural first: `meetings` is `meeting` is `meet`."""
    for ending in ("ies", "ied"):
        if word.endswith(ending) and len(word) > 4:
            return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "zes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) > 2 and VOWEL.search(root):
            return root[:-1] if root[-1] == root[-2] and root[-1] not in "lsz" else root
    return word
