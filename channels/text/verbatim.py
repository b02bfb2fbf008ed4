"""A text that is no markdown, word for word (A6): what commands, notices and answers to buttons say."""

import re

from channels.terminal_text import readable

PUNCTUATION = re.compile(r"([\\`*_{}\[\]<>#+\-.!|~&)$^=])")
"""All that could be a sign, and what makes a formula of brackets that are escaped."""
INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
SPACE = "\u00a0"


def literal(text: str) -> str:
    """Markdown that is read as exactly this text: for what commands and notices say, which is no markdown."""
    plain = PUNCTUATION.sub(r"\\\1", readable(text))
    return INDENT.sub(lambda found: found.group().replace("\t", SPACE * 4).replace(" ", SPACE), plain)
