"""/plan: reading only, until a plan is approved."""

from daemon.commands.registry import CommandCall
from daemon.core import value
from daemon.core.errors import UsageError
from daemon.core.trust import Label
from daemon.core.turn_spec import PLAN_WORD
from daemon.sessions.inbox import Inbox, InboxMessage


@value
class PlanCommand:
    """For the owner, in a chat that can be trusted."""

    inbox: Inbox

    async def plan(self, call: CommandCall) -> str:
        """/plan TASK; again after a crash it is the same message."""
        session, text = call.session, f"{PLAN_WORD}{call.argument}"
        if session.label is Label.UNTRUSTED:
            raise UsageError("Not in a conversation from outside.")
        if not call.argument:
            raise UsageError("Use /plan TASK.")
        where, key = (session.channel, session.chat, session.id), f"{call.turn}/plan"
        await self.inbox.accept(InboxMessage(*where, call.sender, key, text, role=call.role.value))
        return "I only read, and then ask you once for all that I would do."
