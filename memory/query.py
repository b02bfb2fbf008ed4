"""A person's words as a full-text query that can never be a syntax error."""

import re

WORD = re.compile(r"\w+")
STOPWORDS = frozenset({
    "a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do",
    "does", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i", "if", "in", "is", "it", "its", "me", "my",
    "of", "on", "or", "our", "she", "so", "some", "that", "the", "their", "them", "there", "they", "this", "to", "us", "was",
    "we", "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your",
    "please", "tell", "know", "remember", "recall",
})  # fmt: skip
MOST_WORDS = 32


def full_text_query(words: str) -> str:
    """Any of the words that carry meaning, quoted; empty when there is none at all."""
    found = list(dict.fromkeys(word.casefold() for word in WORD.findall(words)))
    telling = [word for word in found if word not in STOPWORDS] or found
    return " OR ".join(f'"{word}"' for word in telling[:MOST_WORDS])


def sameness(text: str) -> str:
    """The same for two ways of writing one fact."""
    return " ".join(WORD.findall(text.casefold())) or text.strip()
