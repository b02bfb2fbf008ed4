"""A secret that comes back in another spelling is known again, and ordinary pages are not taken for one (A6)."""

import random
from pathlib import Path
from time import process_time

import pytest

from daemon.core.redaction import Redactor
from tests.security.spellings import SPELLINGS

SECRETS = {"api": "sk-9fQ2_hunter2-Zz81/+=x", "word": "correct-Horse7battery", "hex": "9f86d081884c7d65"}  # fmt: skip
LEAST = 110
DOCS = Path(__file__).parents[2] / "daemon" / "docs"


def redactor() -> Redactor:
    names = {value: name for name, value in SECRETS.items()}
    return Redactor(lambda: names)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_A6_no_spelling_of_a_secret_is_shown(spelling: str, name: str) -> None:
    written = SPELLINGS[spelling](SECRETS[name])
    kept = redactor()
    shown = kept.withhold(kept.redact_text(f"You sent: {written} and we thank you."))
    assert written not in shown and f"secret {name}" in shown


def test_the_table_is_long_enough() -> None:
    assert len(SPELLINGS) >= LEAST


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_an_ordinary_page_is_shown_as_it_is(page: Path) -> None:
    text = page.read_text()
    assert redactor().withhold(text) == text


def test_ordinary_numbers_and_random_words_are_shown_as_they_are() -> None:
    chance = random.Random(7)
    for alphabet in ("0123456789 ,\n", "0123456789abcdef", "abcdefghijklmnop qrstuvwxyz.-ABC/+="):
        text = "".join(chance.choice(alphabet) for _ in range(20_000))
        assert redactor().withhold(text) == text


def test_a_page_with_20_secrets_is_looked_through_in_a_moment() -> None:
    chance = random.Random(8)
    names = {f"{chance.getrandbits(128):032x}": f"k{number}" for number in range(20)}
    kept, text = Redactor(lambda: names), (DOCS / "trust.md").read_text()[:8000]
    kept.withhold(text)
    began = process_time()
    for _ in range(5):
        kept.withhold(text)
    assert (process_time() - began) / 5 < 0.1
