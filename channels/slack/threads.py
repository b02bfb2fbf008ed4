"""The threads in which the assistant takes part, and who wrote there last. In memory: the house knows them for good."""

from collections import OrderedDict
from collections.abc import Iterable

from channels.message import Address

MOST = 2000
Place = tuple[str, str]


class Threads:
    """The latest ones; the oldest are forgotten. `members`: those of the allow-list. Threads in which only others have mentioned
    the assistant are kept apart, so that these push out none in which it has answered, or a member takes part.
    """

    def __init__(self, members: Iterable[str] = (), most: int = MOST) -> None:
        self._members, self._most = frozenset(members), most
        self._people: OrderedDict[Place, str] = OrderedDict()
        self._strange: OrderedDict[Place, str] = OrderedDict()

    def trusts(self, person: str) -> bool:
        """Somebody of the allow-list."""
        return person in self._members

    def joined(self, chat: str, thread: str) -> bool:
        """The assistant takes part in this thread."""
        return (chat, thread) in self._people or (chat, thread) in self._strange

    def join(self, address: Address, person: str = "") -> None:
        """It does so from now on; `person` wrote there, and an answer is for them. Without a person: it wrote itself."""
        if not address.thread:
            return
        place = address.chat, address.thread
        before = self._people.get(place) or self._strange.get(place, "")
        if place in self._people or not person or person in self._members:
            self._strange.pop(place, None)
            self._keep(self._people, place, person or before)
        else:
            self._keep(self._strange, place, person)

    def person(self, address: Address) -> str:
        """Who wrote there last; "" if nobody is known."""
        place = address.chat, address.thread
        return self._people.get(place) or self._strange.get(place, "")

    def latest(self, most: int, chats: Iterable[str]) -> list[Place]:
        """(chat, thread), the latest first, in these chats; those that only strangers know come last."""
        among = set(chats)
        places = [*reversed(self._people), *reversed(self._strange)]
        return [place for place in places if place[0] in among][:most]

    def _keep(self, kept: OrderedDict[Place, str], place: Place, person: str) -> None:
        kept[place] = person
        kept.move_to_end(place)
        if len(kept) > self._most:
            kept.popitem(last=False)
