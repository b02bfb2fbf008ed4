"""Threads that nobody here remembers: looked at once, whether the assistant takes part, when a member writes there (A14)."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from channels.base import Later, Refused
from channels.message import Address, Arrival, Inbound
from channels.slack.errors import Declined
from channels.slack.sending import Sending
from channels.slack.shape import Json, maybe, rows
from channels.slack.threads import MOST, Place, Threads
from channels.slack.web import Web
from channels.slack.who import Who
from channels.slack.wording import mentions

PAGE = 200
MOST_LOOKS, IN_S = 20, 60.0
"""Slack allows some fifty of these calls a minute, and what was missed is fetched with them too."""


class Recalling:
    """`look_s`: how long the answer may take, for what was said waits for it. `monotonic`: seconds that never go back."""

    def __init__(
        self, web: Web, who: Who, threads: Threads, sending: Sending, look_s: float, monotonic: Callable[[], float]
    ) -> None:
        self._web, self._who, self._threads, self._look_s, self._monotonic = web, who, threads, look_s, monotonic
        self._say_once: Callable[[str, str], None] = sending.once
        self._foreign: OrderedDict[Place, None] = OrderedDict()
        self._closed: set[str] = set()
        self._looks: deque[float] = deque()
        self._rests_until = float("-inf")

    async def completed(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """The same; what members wrote in a thread of the assistant's is addressed to it. Raises Revoked."""
        return [await self._completed(one) if isinstance(one, Inbound) else one for one in arrivals]

    async def _completed(self, said: Inbound) -> Inbound:
        if said.addressed or not said.address.thread or not self._threads.trusts(said.sender.id):
            return said
        if not await self._takes_part(said.address):
            return said
        self._threads.join(said.address, said.sender.id)
        return replace(said, addressed=True)

    async def _takes_part(self, address: Address) -> bool:
        place, kind = (address.chat, address.thread), address.chat[:1]
        known = self._threads.joined(*place) or place in self._foreign  # joined just now: this was said before
        if known or kind in self._closed or not self._may_look():
            return False
        try:
            async with asyncio.timeout(self._look_s):
                answer = await self._web.read("conversations.replies", channel=place[0], ts=place[1], limit=PAGE)
        except (Later, TimeoutError):
            self._rests_until = self._monotonic() + IN_S
            return False
        except Refused as no:
            if isinstance(no, Declined) and no.unknown:
                self._closed.add(kind)
                self._say_once(
                    f"recalling {kind}", f"{no}; in threads of before a restart the assistant may have to be mentioned"
                )
            answer = {}
        if any(self._who.wrote(row) or _names(row, self._who) for row in rows(answer, "messages")):
            return True
        self._foreign[place] = None
        if len(self._foreign) > MOST:
            self._foreign.popitem(last=False)
        return False

    def _may_look(self) -> bool:
        now = self._monotonic()
        while self._looks and self._looks[0] <= now - IN_S:
            self._looks.popleft()
        if now < self._rests_until or len(self._looks) >= MOST_LOOKS:
            return False
        self._looks.append(now)
        return True


def _names(row: Json, who: Who) -> bool:
    return mentions(maybe(row, "text"), who.user)
