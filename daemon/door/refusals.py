"""What a daemon that runs in another process says when it does not do what was asked, or nothing because it is gone."""

from aiohttp import ClientResponse
from pydantic import TypeAdapter

from daemon.core.errors import AidaemonError, UsageError

WRONG = ("invalid", "no_agent", "not_enabled")


class DaemonGone(AidaemonError):
    """The daemon stopped; nothing was lost: start it again, the answer will come."""


class DaemonRefused(AidaemonError):
    """The daemon did not do what was asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AskedWrongly(DaemonRefused, UsageError):
    """What was asked cannot be meant, whoever is asked."""


async def check(response: ClientResponse) -> None:
    """Raises DaemonRefused in the daemon's own words, AskedWrongly where it was the caller's mistake."""
    if response.ok:
        return
    try:
        error = TypeAdapter(dict[str, dict[str, str]]).validate_json(await response.read())["error"]
        kind, message = error["type"], error["message"]
    except (ValueError, KeyError):
        kind, message = "", f"the daemon answered {response.status} {response.reason}"
    raise (AskedWrongly if kind in WRONG else DaemonRefused)(response.status, message)
