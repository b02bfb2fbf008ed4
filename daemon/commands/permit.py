"""/approve /deny /grants: answers to questions, and what was allowed for good (A15)."""

from daemon.commands.base import Command, Desk, Spoken
from daemon.core.events import Answer
from daemon.core.rows import ApprovalRow, GrantRow
from daemon.store.protocol import Tx

SCOPES = {"": Answer.ONCE, "once": Answer.ONCE, "session": Answer.SESSION, "always": Answer.ALWAYS}


async def answer_call(
    desk: Desk, turn: str, call_id: str, answer: Answer, by: str, reason: str = ""
) -> bool:
    """Answer one question, once; a standing permission is written with it. False when it is not pending any more."""
    now = desk.clock.now()

    def work(tx: Tx) -> ApprovalRow | None:
        row = tx.answer_approval(turn, call_id, answer, by, reason, now)
        if row and answer in (Answer.SESSION, Answer.ALWAYS) and row.call_id[0].isdigit():  # the house's questions are asked anew
            where = _chat_of(tx, row.session) if answer is Answer.SESSION else ""
            tx.add_grant(GrantRow(desk.new_id()[-6:], where, row.tool, row.args_hash, row.arguments, by, now))
        return row

    row = await desk.store.write(work)
    session = await desk.store.read(lambda tx: tx.session(row.session)) if row else None
    if row and session:
        desk.sessions.take_up(session, row.turn)
    return row is not None


def _chat_of(tx: Tx, session: str) -> str:
    """Where the person is: agents that work for a chat come and go."""
    own = tx.session(session)
    return own.root if own and own.root else session


async def approve(desk: Desk, spoken: Spoken) -> str:
    """The latest question of this chat, or the one of a turn."""
    scope = spoken.argument.lower()
    if scope not in SCOPES:
        return "Say /approve, /approve session or /approve always."
    return await _answer_latest(desk, spoken, SCOPES[scope], "", "Approved")


async def deny(desk: Desk, spoken: Spoken) -> str:
    """The latest question, with the reason behind it."""
    return await _answer_latest(desk, spoken, Answer.DENY, spoken.argument, "Denied")


async def grants(desk: Desk, spoken: Spoken) -> str:
    """What needs no question any more; /grants revoke ID takes one back."""
    verb, _, name = spoken.argument.partition(" ")
    if verb == "revoke":
        gone = await desk.store.write(lambda tx: tx.revoke_grant(name.strip()))
        return "Revoked: I will ask again." if gone else f"There is no permission {name}."
    rows = await desk.store.read(lambda tx: tx.grants(spoken.session.id))
    lines = [f"- {row.id}: {row.tool} {row.arguments} ({'this chat' if row.session else 'everywhere'})" for row in rows]
    return "\n".join(("Allowed without a question (/grants revoke ID takes one back):", *lines)) if lines else "None."


async def _answer_latest(desk: Desk, spoken: Spoken, answer: Answer, reason: str, word: str) -> str:
    asked = await desk.store.read(lambda tx: tx.approvals("pending", spoken.session.id))
    if not asked:
        return "Nothing waits for an answer here."
    row = asked[-1]
    done = await answer_call(desk, row.turn, row.call_id, answer, spoken.sender, reason)
    return f"{word}: {row.tool} {row.arguments}" if done else "That question has expired."


COMMANDS = (
    Command("approve", "say yes to what I asked: /approve [session|always]", approve),
    Command("deny", "say no to what I asked: /deny [reason]", deny),
    Command("grants", "what is allowed for good; /grants revoke ID", grants),
)
