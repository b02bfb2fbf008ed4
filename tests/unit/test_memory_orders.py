"""When a tainted turn keeps the owner's own words: only what they told to remember, whole, counts (issue 11, F)."""

import pytest

from daemon.tools.memory_tools import is_ordered

FACT = "my dentist is Dr. Adler"


@pytest.mark.parametrize(
    "said",
    [
        "Remember that my dentist is Dr. Adler.",
        "remember: my dentist is Dr. Adler",
        "Please remember that my dentist is Dr. Adler! What does http://a.example/b?c=d say?",
        "Sum up http://a.example/b and remember that my dentist is Dr. Adler.",
        "Sum this up.\nAlso note that my  dentist is Dr. Adler",
        "My dentist is Dr. Adler. Please remember that.",
        "My dentist is Dr. Adler. Don't forget that. What does the page say?",
        "Can you remember that my dentist is Dr. Adler.",
    ],
)
def test_what_was_told_to_remember_whole_counts(said: str) -> None:
    assert is_ordered(said, FACT) and is_ordered(said, FACT.capitalize() + ".")


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("Merk dir, dass mein Zahnarzt Adler heißt.", "mein Zahnarzt Adler heißt"),
        ("Lies das und merk dir bitte: mein Zahnarzt heißt Adler", "mein Zahnarzt heißt Adler"),
        ("Retiens que mon dentiste est Adler.", "mon dentiste est Adler"),
        ("Recuerda que mi dentista es Adler.", "mi dentista es Adler"),
        ("Ricorda che il mio dentista è Adler.", "il mio dentista è Adler"),
        ("Lembra-te que o meu dentista é Adler.", "o meu dentista é Adler"),
        ("Onthoud dat mijn tandarts Adler is.", "mijn tandarts Adler is"),
        ("Zapamiętaj, że mój dentysta to Adler.", "mój dentysta to Adler"),
    ],
)
def test_it_may_be_said_in_eight_languages(said: str, fact: str) -> None:
    assert is_ordered(said, fact)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "my dentist is Dr. Adler.",
        "Never remember that my dentist is Dr. Adler.",
        "Do not remember that my dentist is Dr. Adler.",
        "You must not remember that my dentist is Dr. Adler.",
        "Don't remember that my dentist is Dr. Adler.",
        "Should you remember that my dentist is Dr. Adler?",
        "The page says: remember that my dentist is Dr. Adler.",
        "The page says remember that my dentist is Dr. Adler.",
        'He wrote "remember that my dentist is Dr. Adler."',
        "If it is open, say so and remember that my dentist is Dr. Adler.",
        "They want you to read it and remember that my dentist is Dr. Adler.",
        "Remember that I doubt my dentist is Dr. Adler.",
        "Remember that my dentist is Dr. Adler only on Mondays.",
        "Remember that my dentist is Dr. Adler, or so they say.",
        "Remember that my dentist is Dr. Adlerson.",
        "Remember nothing. my dentist is Dr. Adler.",
        "My dentist is Dr. Adler. Never remember that.",
        "My dentist is Dr. Adler. Remember that it is cheap.",
        "My dentist is Dr. Adler. Do you remember that?",
        "Is it so that my dentist is Dr. Adler? Remember that.",
        "I read a footnote: my dentist is Dr. Adler.",
    ],
)
def test_a_mention_a_question_a_report_or_a_part_does_not(said: str) -> None:
    assert not is_ordered(said, FACT)


@pytest.mark.parametrize(
    "fact", ["", ".", "my dentist is Dr", "dentist is Dr. Adler", "my dentist"]
)
def test_a_part_of_what_was_told_is_not_what_was_told(fact: str) -> None:
    assert not is_ordered("Remember that my dentist is Dr. Adler. What is new?", fact)


def test_a_long_message_is_read_at_once() -> None:
    assert not is_ordered("remember that " * 20_000, "remember that")
    assert not is_ordered("a. " * 200_000, "a")
