"""The threads in which the assistant takes part, and who wrote there last. In memory: the house knows them for good."""

from collections import OrderedDict
from collections.abc import Iterable

from channels.message import Address

MOST = 2000


class Threads:
    """The latest ones; the oldest are forgotten."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._people: OrderedDict[tuple[str, str], str] = OrderedDict()

    def __contains__(self, place: object) -> bool:
        return place in self._people

    def joined(self, chat: str, thread: str) -> bool:
        """The assistant takes part in this thread."""
        return (chat, thread) in self._people

    def join(self, address: Address, person: str = "") -> None:
        """It does so from now on; `person` wrote there, and an answer is for them."""
        if not address.thread:
            return
        place = address.chat, address.thread
        self._people[place] = person or self._people.get(place, "")
        self._people.move_to_end(place)
        if len(self._people) > self._most:
            self._people.popitem(last=False)

    def person(self, address: Address) -> str:
        """Who wrote there last; "" if nobody is known."""
        return self._people.get((address.chat, address.thread), "")

    def latest(self, most: int, chats: Iterable[str]) -> list[tuple[str, str]]:
        """(chat, thread), the latest first, in these chats."""
        among = set(chats)
        return [place for place in reversed(self._people) if place[0] in among][:most]
