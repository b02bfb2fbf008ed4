"""The fake by hand: `python -m tests.fakes.discord --port 9103`."""

from tests.fakes.by_hand import by_hand
from tests.fakes.discord import FakeDiscord

if __name__ == "__main__":
    by_hand(FakeDiscord, 9103)
