"""Regular expressions that people write into files."""

import re


def pattern_fault(pattern: str) -> str:
    """Why this cannot be used; "" when it can. Python's own says so in three ways."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return ""
