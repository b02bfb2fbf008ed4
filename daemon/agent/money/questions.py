"""What the house itself asks a person: for more budget, for a look at an answer (F2, E10)."""

import json
from collections.abc import Mapping
from datetime import datetime

from daemon.core.events import ApprovalAsked
from daemon.core.label import Effect
from daemon.tools.approvals import token_hash
from daemon.tools.arguments import args_hash

EXTEND, REVIEW = "extend_budget", "review_answer"


def house_question(name: str, what: str, about: Mapping[str, object], token: str, expires: datetime) -> ApprovalAsked:
    """Asked and answered like any approval; `name` is its call id and does not begin with a digit."""
    arguments = json.dumps(about, ensure_ascii=False, sort_keys=True)
    return ApprovalAsked(name, what, arguments, args_hash(what, about), Effect.WRITE, token_hash(token), expires)
