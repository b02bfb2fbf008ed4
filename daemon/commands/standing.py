"""/grants: what needs no question any more, how far each of it goes, and taking it back."""

from daemon.commands.base import Command, Desk, Spoken
from daemon.core.escaping import shown
from daemon.core.roles import Right, may
from daemon.core.rows import OUTSIDE, GrantRow
from daemon.tools.grants import stands

EVERYTHING = "*"


async def holding(desk: Desk, session: str = EVERYTHING) -> list[GrantRow]:
    """The permissions that stand: in this session and in conversations from outside, or all there are."""
    rows, now = await desk.store.read(lambda tx: tx.grants(session)), desk.clock.now()
    outside = [] if session == EVERYTHING else await desk.store.read(lambda tx: tx.grants(OUTSIDE))
    return [row for row in (*rows, *(row for row in outside if row.session)) if stands(row, now)]


async def revoke(desk: Desk, grant_id: str) -> bool:
    """Take one back; False when there is none of that id."""
    return await desk.store.write(lambda tx: tx.revoke_grant(grant_id))


async def grants(desk: Desk, spoken: Spoken) -> str:
    """What needs no question any more; /grants revoke ID takes one back."""
    verb, _, name = spoken.argument.partition(" ")
    if verb == "revoke":
        if not may(spoken.role, Right.ANSWER):
            return "Taking permissions back is for those who may give them."
        return "Revoked: I will ask again." if await revoke(desk, name.strip()) else f"There is no permission {name}."
    lines = [in_words(row) for row in await holding(desk, spoken.session.id)]
    return "\n".join(("Allowed without a question (/grants revoke ID takes one back):", *lines)) if lines else "None."


def in_words(row: GrantRow) -> str:
    """One permission in a list."""
    what = f"any call on {shown(row.paths)}" if row.paths else str(shown(row.arguments))
    used = "not used yet" if not row.uses else "used once" if row.uses == 1 else f"used {row.uses} times"
    return f"- {row.id}: {shown(row.tool)} {what} ({_where(row)}; {bounds_of(row)}; {used})"


def _where(row: GrantRow) -> str:
    if row.session == OUTSIDE:
        return "to what comes from outside"
    return "this chat" if row.session else "everywhere"


def bounds_of(row: GrantRow) -> str:
    """How far it goes: "3 times more until 20 Feb 2026 09:00 UTC"."""
    left = "" if row.uses_left is None else "once more " if row.uses_left == 1 else f"{row.uses_left} times more "
    where = f"on {shown(row.paths)} " if row.paths else ""
    return f"{left}{where}until {row.expires:%d %b %Y %H:%M} UTC" if row.expires else f"{left}{where}".strip()


COMMANDS = (Command("grants", "what is allowed without a question, and how far; /grants revoke ID", grants),)
