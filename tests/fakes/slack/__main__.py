"""The fake by hand: `python -m tests.fakes.slack --port 9102`."""

from tests.fakes.by_hand import by_hand
from tests.fakes.slack import FakeSlack

if __name__ == "__main__":
    by_hand(FakeSlack, 9102)
