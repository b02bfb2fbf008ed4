"""Messages out, and found again (B5 #13)."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta

from channels.message import Address, Choice, Piece
from channels.slack.blocks import KEYED, body, keyed, place
from channels.slack.errors import Declined
from channels.slack.shape import Json, maybe, rows, table, text
from channels.slack.web import Web
from channels.slack.who import Who

MARGIN = timedelta(seconds=60)
"""Slack's clock and ours are not the same."""
PAGES, PAGE = 10, 200
QUIET = {"unfurl_links": False, "unfurl_media": False}
"""Slack would open the addresses in a text to show what is there: nobody has asked for that."""
Rows = AsyncIterator[Json]
log = logging.getLogger(__name__)


class Sending:
    """Posts, changes, deletes and finds messages."""

    def __init__(self, web: Web, name: str) -> None:
        self._web, self._name = web, name
        self._bare = self._blind = False
        self._said: set[str] = set()

    async def post(self, address: Address, piece: Piece, key: str, choices: Sequence[Choice] = ()) -> str:
        """A new message; its ts. Raises Refused, Later, Unclear, Revoked."""
        message = {**place(address), **body(piece, choices), **QUIET}
        if self._bare:
            return text(await self._web.write("chat.postMessage", **message), "ts")
        try:
            return text(await self._web.write("chat.postMessage", **message, metadata=keyed(key)), "ts")
        except Declined as no:
            if "metadata" not in no.code:
                raise
            self._bare = True
            self.once("metadata", "Slack takes no metadata here: a message whose answer was lost cannot be found again")
            return text(await self._web.write("chat.postMessage", **message), "ts")

    @property
    def finds(self) -> bool:
        """`find` can tell: nothing has been seen yet that speaks against it."""
        return not (self._bare or self._blind)

    async def change(
        self, address: Address, message_id: str, piece: Piece, choices: Sequence[Choice] = (), key: str = ""
    ) -> None:
        """Another text, other buttons or none; its key stays if none is given. Raises as `post`."""
        metadata = keyed(key) if key and not self._bare else None
        await self._web.write("chat.update", channel=address.chat, ts=message_id, **body(piece, choices), metadata=metadata)

    async def delete(self, address: Address, message_id: str) -> None:
        """Take it away; that it is gone already is no error. Raises as `post`."""
        try:
            await self._web.write("chat.delete", channel=address.chat, ts=message_id)
        except Declined as no:
            if no.code != "message_not_found":
                raise

    async def whisper(self, address: Address, person: str, piece: Piece) -> None:
        """Show somebody a text that nobody else sees. Raises as `post`."""
        await self._web.write("chat.postEphemeral", **place(address), user=person, text=piece.text)

    async def find(self, address: Address, key: str, since: datetime, who: Who) -> tuple[str, list[str]]:
        """The ts of our message with this key, "" if there is none or nobody may look; and of texts that we began to stream there
        and that nobody has ended, for those carry no key. Raises Later, Revoked.
        """
        method, more = ("conversations.replies", {"ts": address.thread}) if address.thread else ("conversations.history", {})
        recent = {**more, "oldest": f"{(since - MARGIN).timestamp():.6f}"}
        own = [row async for row in self._own(method, address, who, recent)]
        found = _of_key(own, key)
        if not found and self.finds:  # our clock may have jumped; threads are told from their beginning, all else from the end
            pages = PAGES if address.thread else 1
            found = _of_key([row async for row in self._own(method, address, who, more, pages)], key)
        return found, [maybe(row, "ts") for row in own if "streaming_state" in row and not _key(row)]

    async def _own(self, method: str, address: Address, who: Who, more: Mapping[str, object], pages: int = PAGES) -> Rows:
        cursor = ""
        for _ in range(pages):
            try:
                asked = {"channel": address.chat, "include_all_metadata": True, "limit": PAGE, "cursor": cursor, **more}
                answer = await self._web.read(method, **asked)
            except Declined as no:
                self._blind = self._blind or no.unknown
                self.once(method, f"{no}; a message whose answer was lost cannot be found again")
                return
            for row in rows(answer, "messages"):
                if who.wrote(row):
                    yield row
            cursor = maybe(table(answer, "response_metadata"), "next_cursor")
            if not cursor:
                return

    def once(self, about: str, what: str) -> None:
        """Say so in the log, the first time."""
        if about not in self._said:
            self._said.add(about)
            log.warning("%s: %s", self._name, what)


def _of_key(own: Sequence[Json], key: str) -> str:
    return next((maybe(row, "ts") for row in own if _key(row) == key), "")


def _key(row: Json) -> str:
    metadata = table(row, "metadata")
    return maybe(table(metadata, "event_payload"), "key") if maybe(metadata, "event_type") == KEYED else ""
