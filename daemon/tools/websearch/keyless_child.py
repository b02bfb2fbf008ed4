"""One keyless search, as a child process: `{"query", "count"}` in, `{"rows", "trouble"}` out (imports nothing of the house)."""

import json
import sys

try:
    from ddgs import DDGS
    from ddgs.exceptions import DDGSException
except ImportError:
    DDGS, DDGSException = None, OSError

TIMEOUT_S = 20


def searched(query: str, count: int) -> dict[str, object]:
    """The rows that were found, or what kind of trouble there was."""
    if DDGS is None:
        return {"rows": [], "trouble": "missing"}
    try:
        rows = DDGS(timeout=TIMEOUT_S).text(query, max_results=count)
    except DDGSException as error:
        return {"rows": [], "trouble": "" if "No results" in str(error) else "engines"}
    return {"rows": [{**row, "url": row.get("href", "")} for row in rows], "trouble": ""}


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    sys.stdout.write(json.dumps(searched(asked["query"], asked["count"])))
