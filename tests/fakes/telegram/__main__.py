"""The fake by hand: `python -m tests.fakes.telegram --port 9101`."""

from tests.fakes.by_hand import by_hand
from tests.fakes.telegram import FakeTelegram

if __name__ == "__main__":
    by_hand(FakeTelegram, 9101)
