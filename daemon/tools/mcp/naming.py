"""What the tools of a server are called: `SERVER__tool`, fit for every provider, and never the name of another tool."""

import re
from hashlib import sha256

BETWEEN = "__"
LONGEST = 64
UNFIT = re.compile(r"[^A-Za-z0-9_-]")
MARK = 6


def shown_name(server: str, tool: str) -> str:
    """The name that the model and people see. It depends on these two alone, so it is the same after every start; one that had
    to be changed has a mark at its end that no other tool has.
    """
    fit = server + BETWEEN + UNFIT.sub("_", tool)
    if fit == server + BETWEEN + tool and tool and len(fit) <= LONGEST:
        return fit
    mark = sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:MARK]
    return f"{fit[: LONGEST - MARK - 1]}_{mark}"
