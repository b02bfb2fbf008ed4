"""A question to a person about exactly one call."""

from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_hex

from daemon.core.events import Answer, ApprovalAnswered, ApprovalAsked, CallJudged
from daemon.tools.calls import AdmittedCall, args_hash, canonical_json
from daemon.tools.policy.gate import REASONS
from daemon.tools.policy.grants import grantable_paths


def new_token() -> str:
    """128 random bits: only who was shown the question knows them."""
    return token_hex(16)


def hash_token(token: str) -> str:
    """The stored form of a token."""
    return sha256(token.encode()).hexdigest()


def make_question(
    call: AdmittedCall, judged: CallJudged, *, token: str, now: datetime, minutes: float
) -> ApprovalAsked:
    """The question about this call with these arguments; a reason is added unless it is generic."""
    tool, arguments, reason = call.tool, call.arguments, judged.reason
    lines = [tool.preview(arguments)] if tool.preview else []
    if reason and reason not in REASONS.values():
        lines.append(f"asked because {reason}")
    return ApprovalAsked(
        judged.call_id,
        tool.name,
        canonical_json(arguments),
        args_hash(tool.name, arguments),
        judged.effect,
        hash_token(token),
        now + timedelta(minutes=minutes),
        preview="\n".join(filter(None, lines)),
        paths=grantable_paths(tool.meta, arguments),
    )


def refusal_reason(answered: ApprovalAnswered) -> str:
    """Why a person refused the call, for the model."""
    if answered.answer is Answer.EXPIRED:
        return "nobody answered in time"
    return answered.reason or f"{answered.by or 'the user'} said no"
