"""What names a question to somebody who was shown it."""

import re

TOKEN = re.compile(r"[0-9a-f]{32,}")


def names_a_token(prefix: str) -> bool:
    """So many hexadecimal digits that nobody hits a question by chance."""
    return TOKEN.fullmatch(prefix) is not None
