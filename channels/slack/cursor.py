"""How far a Slack account has been read."""

import time

from channels.base import Host, NotAccepted

MAX_AHEAD_S = 86_400.0
"""No clock is further ahead: a time from later is not believed, or nothing would count as missed
any more.
"""


class SlackCursor:
    """In seconds since 1970; never further than what the host has accepted. `save_s`: it is saved
    this often at most.
    """

    def __init__(self, host: Host, save_s: float) -> None:
        self._host, self._save_s = host, save_s
        self._newest = self._saved = self._first_start = self._saved_at = 0.0
        self._missed_from: float | None = None

    async def begin(self) -> None:
        """At the very first start: now, for nobody wants an answer to what was written before."""
        self._saved = self._newest = max(0.0, _seconds(await self._host.load_cursor()))
        if not self._saved:
            self._newest = self._first_start = time.time()
            await self.save(at_once=True)

    def backfill_start(self, margin_s: float) -> float:
        """So long before what was accepted; never before the very first start."""
        return max(self._value - margin_s, self._first_start)

    def advance(self, ts: str) -> None:
        """Everything up to here was accepted, except for what was missed."""
        if self._newest < (seconds := _seconds(ts)) <= time.time() + MAX_AHEAD_S:
            self._newest = seconds

    def note_missed(self, ts: str = "") -> None:
        """This was not accepted; without a ts: what came since the cursor, perhaps."""
        self._missed_from = min(self._value, _seconds(ts) if ts else self._value)

    def clear_missed(self) -> None:
        """What was missed has been accepted."""
        self._missed_from = None

    async def save(self, *, at_once: bool = False) -> None:
        """If it is time."""
        value, now = self._value, time.monotonic()
        if value == self._saved or (not at_once and now < self._saved_at + self._save_s):
            return
        try:
            await self._host.save_cursor(f"{value:.6f}")
        except NotAccepted:
            return  # an older one only means that more is read again
        self._saved, self._saved_at = value, now

    @property
    def _value(self) -> float:
        return self._newest if self._missed_from is None else min(self._newest, self._missed_from)


def _seconds(ts: str) -> float:
    try:
        return float(ts)
    except ValueError:
        return 0.0
