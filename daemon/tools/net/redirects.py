"""Pages that have moved: every hop goes through the guard, and there are not many."""

from collections.abc import Mapping

from yarl import URL

from daemon.tools.base import ToolError, Unavailable
from daemon.tools.net.client import Answered, Ask, WebClient
from daemon.tools.net.urls import Target

MOST = 5
MOVED = (301, 302, 303, 307, 308)


async def follow(client: WebClient, url: str, headers: Mapping[str, str]) -> Answered:
    """What a GET finds in the end. Raises Refused for a place that may not be asked, Unavailable for a server in trouble."""
    target = client.guard.check(url)
    for _ in range(MOST + 1):
        answer = await client.send(Ask(target, headers=headers))
        if answer.status >= 500 or answer.status == 429:
            raise Unavailable(f"{target.host} is in trouble: HTTP {answer.status}. Nothing was changed; try again later.")
        if answer.status not in MOVED or not answer.headers.get("location"):
            return answer
        target = client.guard.check_next(target, _place(target, answer.headers["location"]))
    raise ToolError(f"It was moved more than {MOST} times, and not followed any further.")


def _place(here: Target, location: str) -> str:
    """Where it leads, whole. What is no URL is left as it is, for the guard to refuse."""
    try:
        return str(here.url.join(URL(location, encoded=True))) if "\\" not in location else location
    except ValueError:
        return location
