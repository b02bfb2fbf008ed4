"""Half a surrogate pair is no text: JSON can carry one, but nothing can be written down with it."""


def without_halves(text: str) -> str:
    """The text as it can be written, with a "?" in place of each."""
    return text.encode("utf-8", "replace").decode()
