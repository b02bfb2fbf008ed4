"""How far an account has been read: never further than what the house has taken."""

from collections.abc import Callable

from channels.base import Host, NotTaken

AHEAD_S = 86_400.0
"""A time further ahead than clocks ever are is none; were it believed, nothing would count as missed any more."""


class Cursor:
    """Slack's timestamps. `now`: seconds since 1970; `keep_s`: it is written down this often at most."""

    def __init__(self, host: Host, now: Callable[[], float], monotonic: Callable[[], float], keep_s: float) -> None:
        self._host, self._now, self._monotonic, self._keep_s = host, now, monotonic, keep_s
        self._newest = self._kept = self._floor = ""
        self._kept_at, self._birth = float("-inf"), 0.0

    async def begin(self) -> None:
        """Where it stood; at the very first start: now, for nobody wants an answer to what was written before."""
        self._kept = self._newest = await self._host.cursor()
        now = self._now()
        if _seconds(self._kept) <= 0:
            self._kept, self._newest, self._birth = "", f"{now:.6f}", now
            await self.keep(at_once=True)

    def before(self, margin_s: float) -> float:
        """So long before what has been taken, in seconds since 1970; never before the very first start."""
        return max(_seconds(self._value) - margin_s, self._birth)

    def advance(self, ts: str) -> None:
        """Everything up to here has been taken, except for what was missed."""
        if _seconds(self._newest) < _seconds(ts) <= self._now() + AHEAD_S:
            self._newest = ts

    def missed(self, ts: str = "") -> None:
        """This has not been taken; without a ts: what came since the cursor, perhaps."""
        ts = ts or self._value
        self._floor = min(self._floor or ts, ts, key=_seconds)

    def caught_up(self) -> None:
        """What was missed has been taken."""
        self._floor = ""

    async def keep(self, *, at_once: bool = False) -> None:
        """Write it down, if it is time."""
        value, now = self._value, self._monotonic()
        if value == self._kept or (not at_once and now - self._kept_at < self._keep_s):
            return
        try:
            await self._host.keep_cursor(value)
        except NotTaken:
            return  # an older one only means that more is looked through
        self._kept, self._kept_at = value, now

    @property
    def _value(self) -> str:
        return min(self._newest, self._floor, key=_seconds) if self._floor else self._newest


def _seconds(ts: str) -> float:
    try:
        return float(ts)
    except ValueError:
        return 0.0
