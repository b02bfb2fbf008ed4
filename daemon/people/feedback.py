"""What people thought of an answer: the reaction that each of them left on it, beside its turn (A13)."""

import json

from daemon.store.protocol import ReadTx, Tx

KIND = "feedback"
LONGEST = 32


def note_reaction(tx: Tx, turn: str, sender: str, emoji: str) -> None:
    """The sender's only one on what this turn said; "" takes it away."""
    kept = _kept(tx, turn)
    kept.pop(sender, None)
    if emoji:
        kept[sender] = emoji[:LONGEST]
    if kept:
        tx.keep(KIND, turn, json.dumps(kept, ensure_ascii=False))
    else:
        tx.drop(KIND, turn)


def reactions_to(tx: ReadTx, turn: str) -> list[str]:
    """What stands there now, oldest first."""
    return list(_kept(tx, turn).values())


def _kept(tx: ReadTx, turn: str) -> dict[str, str]:
    return {str(sender): str(emoji) for sender, emoji in json.loads(tx.kept(KIND, turn) or "{}").items()}
