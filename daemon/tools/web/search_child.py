"""One keyless search in a child process: `{"query", "count"}` in, `{"rows", "trouble"}` out.

It imports nothing of ours. `trouble` is "missing" without the package, "engines" when they fail.
"""

import json
import sys
from collections.abc import Callable

try:
    import ddgs
    from ddgs.exceptions import DDGSException
except ImportError:
    ddgs, DDGSException = None, OSError

TIMEOUT_S = 20


def run_search(
    query: str, count: int, engines: Callable[..., list[dict[str, str]]] | None
) -> dict[str, object]:
    """The rows that were found, or what went wrong."""
    if engines is None:
        return {"rows": [], "trouble": "missing"}
    try:
        rows = engines(query, max_results=count)
    except DDGSException as error:
        return {"rows": [], "trouble": "" if "No results" in str(error) else "engines"}
    return {"rows": [{**row, "url": row.get("href", "")} for row in rows], "trouble": ""}


def main() -> None:
    """Read the query, print the result."""
    asked = json.loads(sys.stdin.read())
    engines = ddgs.DDGS(timeout=TIMEOUT_S).text if ddgs else None
    sys.stdout.write(json.dumps(run_search(asked["query"], asked["count"], engines)))


if __name__ == "__main__":
    main()
