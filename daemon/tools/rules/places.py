"""Words of a rule that say where: paths, addresses, hosts; and amounts of money (F5)."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from daemon.core.words import listed

ADDRESS = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
HOST = re.compile(r"(?:https?://\S+|(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?)", re.IGNORECASE)
HANDLE = re.compile(r"[@#][\w.-]+|\+\d[\d-]{6,}|[A-Z]{2}\d{2}[A-Z0-9]{10,}")
ENDING = re.compile(
    r"\.(?:txt|md|pdf|docx?|xlsx?|csv|json|ya?ml|toml|ini|cfg|conf|py|sh|js|ts|html?|log|db|sqlite|env|zip|tar|gz|png|jpe?g|key|pem)$",
    re.IGNORECASE,
)
SUM = re.compile(r"[$€£]?(\d[\d.,]*)(k?)(?:[$€£]|usd|eur|gbp|dollars?|euros?|pounds?)?", re.IGNORECASE)
COINS = listed("dollar dollars euro euros usd eur gbp pound pounds bucks cents chf francs $ € £")
MORE = (
    ("more", "than"), ("greater", "than"), ("higher", "than"), ("at", "least"), ("upwards", "of"), ("in", "excess", "of"),
    ("over",), ("above",), ("exceeding",), (">",),
)  # fmt: skip


def is_path(word: str) -> bool:
    """It names a place among files."""
    return "/" in word or word.startswith(("~", ".")) or bool(ENDING.search(word)) or "*" in word


def is_value(word: str) -> bool:
    """It names an address, a host, a handle: what stands in arguments as it stands here."""
    if HANDLE.fullmatch(word) or ADDRESS.fullmatch(word):
        return True
    return bool(HOST.fullmatch(word)) and not ENDING.search(word)


def value_of(word: str) -> str:
    """As it is looked for: of an address of the web its host, for the same page has many addresses."""
    if ADDRESS.fullmatch(word) or HANDLE.fullmatch(word):
        return word
    host = (urlsplit(word if "//" in word else f"//{word}").hostname or word).removeprefix("www.")
    return host.rstrip(".")


def amount_in(words: Sequence[str]) -> tuple[Sequence[str], float | None]:
    """The words without the amount, and the amount: `more than 50 dollars`."""
    small = [word.lower() for word in words]
    for at in range(len(words)):
        lead = next((lead for lead in MORE if tuple(small[at : at + len(lead)]) == lead), None)
        number = SUM.fullmatch(small[at + len(lead)]) if lead and at + len(lead) < len(small) else None
        if lead and number:
            end = at + len(lead) + 1
            end += small[end : end + 1] != [] and small[end] in COINS
            return [*words[:at], *words[end:]], _number(number[1]) * (1000 if number[2] else 1)
    return words, None


def _number(written: str) -> float:
    """1,000 is a thousand; 9.99 is nearly ten."""
    tidy = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", written).replace(",", ".").rstrip(".")
    return float(tidy)
