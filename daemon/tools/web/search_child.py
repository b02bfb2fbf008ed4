"""One keyless search, as a child process: `{"query", "count"}` in, `{"rows", "trouble"}` out (imports nothing of the house)."""

import json
import sys
from collections.abc import Callable
from functools import partial

try:
    import ddgs
    from ddgs.exceptions import DDGSException
except ImportError:
    ddgs, DDGSException = None, OSError

TIMEOUT_S = 20
Rows = list[dict[str, str]]


def make_search() -> Callable[[str, int], Rows] | None:
    """The public engines; None without the package."""
    return None if ddgs is None else partial(_search, ddgs.DDGS(timeout=TIMEOUT_S).text)


def _search(text: Callable[..., Rows], query: str, count: int) -> Rows:
    return text(query, max_results=count)


def run_search(
    query: str, count: int, engines: Callable[[str, int], Rows] | None
) -> dict[str, object]:
    """The rows that were found, or what kind of trouble there was."""
    if engines is None:
        return {"rows": [], "trouble": "missing"}
    try:
        rows = engines(query, count)
    except DDGSException as error:
        return {"rows": [], "trouble": "" if "No results" in str(error) else "engines"}
    return {"rows": [{**row, "url": row.get("href", "")} for row in rows], "trouble": ""}


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    sys.stdout.write(json.dumps(run_search(asked["query"], asked["count"], make_search())))
