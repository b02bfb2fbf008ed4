"""What people thought of an answer: the reaction that each of them left on it, beside its turn (A13)."""

import json

from daemon.core.journal import ReadTx, Tx

FEEDBACK_KIND = "feedback"
MAX_EMOJI_CHARS = 32


def save_reaction(tx: Tx, turn: str, sender: str, emoji: str) -> None:
    """The sender's only one on what this turn said; "" takes it away."""
    kept = _load_reactions(tx, turn)
    kept.pop(sender, None)
    if emoji:
        kept[sender] = emoji[:MAX_EMOJI_CHARS]
    if kept:
        tx.keep(FEEDBACK_KIND, turn, json.dumps(kept, ensure_ascii=False))
    else:
        tx.drop(FEEDBACK_KIND, turn)


def list_reactions(tx: ReadTx, turn: str) -> list[str]:
    """What stands there now, oldest first."""
    return list(_load_reactions(tx, turn).values())


def _load_reactions(tx: ReadTx, turn: str) -> dict[str, str]:
    return {
        str(sender): str(emoji)
        for sender, emoji in json.loads(tx.kept(FEEDBACK_KIND, turn) or "{}").items()
    }
