"""How much a message is worth remembering, from 0 to 1 (A1)."""

import re

from daemon.core.messages import Role

BASE = {Role.USER: 0.5, Role.ASSISTANT: 0.5, Role.TOOL: 0.3, Role.SYSTEM: 0.1}
CUES = (
    (0.3, re.compile(r"\b(remember|don'?t forget|keep in mind|note that|important|always|never)\b", re.IGNORECASE)),
    (0.2, re.compile(r"\b(decided?|decision|we('| wi)ll go with|let'?s go with|agreed|chose|choose)\b", re.IGNORECASE)),
    (0.2, re.compile(r"\b(actually|no(?=,)|wrong|incorrect|correction|i meant|instead)\b", re.IGNORECASE)),
)
ACKNOWLEDGEMENT = re.compile(
    r"\W*(ok(ay)?|thanks?|thank you|thx|yes|no|yep|nope|sure|great|cool|nice|got it|hi|hello|hey|bye|good)\W*",
    re.IGNORECASE,
)
LONG = 500


def importance(role: Role, text: str) -> float:
    """The role's base, raised by what asks to be kept, lowered for a mere acknowledgement. Cues count in the first 500 signs."""
    if ACKNOWLEDGEMENT.fullmatch(text):
        return round(BASE[role] * 0.4, 2)
    beginning = text[:LONG]
    score = BASE[role] + sum(weight for weight, words in CUES if words.search(beginning))
    score += 0.1 if len(text) > LONG or "```" in text else 0.0
    return round(min(score, 1.0), 2)
