"""What the fake platform says no with."""


class Refusal(Exception):
    """An answer with ok = false."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status, self.description, self.parameters = status, description, parameters


def bad(why: str) -> Refusal:
    """400, in Telegram's words."""
    return Refusal(400, f"Bad Request: {why}")
