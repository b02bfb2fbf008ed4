"""What one attempt leaves to the next: a line in the progress log, and nothing else (C1, C2)."""

from daemon.core.loops import LoopRow

LEARNED = 300
NOTHING = "(it said nothing)"
ADVICE = (
    "Iteration {attempt} of {most}. Earlier attempts did not finish this; the log above is all that is left of them."
    " Review the work that is there first, then improve on it: do better than the attempts before."
)


def learning(output: str) -> str:
    """The first 300 characters or so, in one line, cut between words."""
    text = " ".join(output.split())
    if len(text) <= LEARNED:
        return text or NOTHING
    cut = text[:LEARNED]
    head, _, _ = cut.rpartition(" ")
    return f"{head or cut} …"


def message_of(loop: LoopRow) -> str:
    """What the attempt is told: the first one the message and nothing else, later ones what came before, too."""
    if loop.attempt == 1:
        return loop.message
    log = "\n".join(f"{number}. {line}" for number, line in enumerate(loop.learned, 1))
    advice = ADVICE.format(attempt=loop.attempt, most=loop.max_iterations)
    return f"{loop.message}\n\n## Progress Log\n\n{log}\n\n{advice}"
