"""A text that is no markdown, word for word (A6): what commands, notices and answers to buttons say."""

import re

PUNCTUATION = re.compile(r"([\\`*_{}\[\]<>#+\-.!|~&])")
INDENT = re.compile(r"^ +", re.MULTILINE)


def literal(text: str) -> str:
    """Markdown that is read as exactly this text: for what commands and notices say, which is no markdown."""
    plain = PUNCTUATION.sub(r"\\\1", text)
    return INDENT.sub(lambda found: "\u00a0" * len(found.group()), plain)
