"""How things end: a turn, a call, a question to a person."""

from enum import StrEnum


class Stop(StrEnum):
    """Why a turn ended (DESIGN 2)."""

    DONE = "done"
    MAX_ITERATIONS = "max_iterations"
    OVER_BUDGET = "over_budget"
    DEADLINE = "deadline"
    STALLED = "stalled"
    REPEATING = "repeating"
    LOW_CONFIDENCE = "low_confidence"
    CANCELLED = "cancelled"
    CONDITION = "condition"
    FAILED = "failed"
    REJECTED = "rejected"


class Outcome(StrEnum):
    """How one tool call ended; every call ends in exactly one of these."""

    OK = "ok"
    ERROR = "error"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    NOT_RUN = "not_run"


class Answer(StrEnum):
    """What a person said to an approval; EXPIRED when nobody said anything in time."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    DENY = "deny"
    EXPIRED = "expired"


YES = (Answer.ONCE, Answer.SESSION, Answer.ALWAYS)
