"""How much a message is worth remembering, from 0 to 1 (A1)."""

import re
from dataclasses import dataclass

from daemon.core.messages import Role

BASE = {Role.USER: 0.5, Role.ASSISTANT: 0.5, Role.TOOL: 0.3, Role.SYSTEM: 0.1}


@dataclass(frozen=True, slots=True)
class Cue:
    """Words that raise the score. A text that holds none of the stems is spared the pattern, which is 30 times as slow."""

    weight: float
    stems: tuple[str, ...]
    pattern: re.Pattern[str]

    def score(self, text: str, lower: str) -> float:
        """The weight, if the words are there."""
        return self.weight if any(stem in lower for stem in self.stems) and self.pattern.search(text) else 0.0


REMEMBER = Cue(
    0.3,
    ("remember", "forget", "keep in mind", "note that", "important", "always", "never"),
    re.compile(r"\b(remember|don'?t forget|keep in mind|note that|important|always|never)\b", re.IGNORECASE),
)
DECISION = Cue(
    0.2,
    ("deci", "go with", "agreed", "chose", "choose"),
    re.compile(r"\b(decided?|decision|we('| wi)ll go with|let'?s go with|agreed|chose|choose)\b", re.IGNORECASE),
)
CORRECTION = Cue(
    0.2,
    ("actually", "no,", "wrong", "incorrect", "correction", "i meant", "instead"),
    re.compile(r"\b(actually|no(?=,)|wrong|incorrect|correction|i meant|instead)\b", re.IGNORECASE),
)
ACKNOWLEDGEMENT = re.compile(
    r"\W*(ok(ay)?|thanks?|thank you|thx|yes|no|yep|nope|sure|great|cool|nice|got it|hi|hello|hey|bye|good)\W*",
    re.IGNORECASE,
)
LONG = 500


def importance(role: Role, text: str) -> float:
    """The role's base, raised by what asks to be kept, lowered for a mere acknowledgement."""
    if ACKNOWLEDGEMENT.fullmatch(text):
        return round(BASE[role] * 0.4, 2)
    lower = text.casefold()
    score = BASE[role] + sum(cue.score(text, lower) for cue in (REMEMBER, DECISION, CORRECTION))
    score += 0.1 if len(text) > LONG or "```" in text else 0.0
    return round(min(score, 1.0), 2)
