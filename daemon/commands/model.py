"""/model /models /auto /effort /agent: who answers this chat, and how hard it thinks (A2, B1,
E13).
"""

from dataclasses import replace

from daemon.agent.routing import ModelRouting
from daemon.agent.spec.registry import AgentRegistry
from daemon.commands.registry import CommandCall, Handlers
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.services.sessions import SessionService

EFFORTS = ("low", "medium", "high", "max")


@value
class ModelCommands:
    """Each applies to the chat, from its next message on."""

    models: ModelRouting
    specs: AgentRegistry
    sessions: SessionService

    def handlers(self) -> Handlers:
        """By command."""
        return {
            "model": self.show_or_pin,
            "models": self.list_models,
            "auto": self.unpin,
            "effort": self.set_effort,
            "agent": self.show_or_choose_agent,
        }

    async def show_or_pin(self, call: CommandCall) -> str:
        """/model [NAME]"""
        name, pinned, names = call.argument, call.session.model, self.models.list_models()
        if not name:
            return f"Model: {pinned} (pinned; /auto unpins)" if pinned else f"Model: {names[0]}"
        await self.sessions.edit(call.session, lambda row: replace(row, model=name))
        return f"Model: {name}." + (
            "" if name in names else " It is not in the config; the provider will be asked for it."
        )

    async def list_models(self, call: CommandCall) -> str:
        """/models"""
        names = self.models.list_models()
        chosen = call.session.model or names[0]
        return "\n".join(
            f"{'*' if name == chosen else '-'} {name}" for name in dict.fromkeys((*names, chosen))
        )

    async def unpin(self, call: CommandCall) -> str:
        """/auto"""
        await self.sessions.edit(call.session, lambda row: replace(row, model=""))
        return f"Model: {self.models.list_models()[0]}"

    async def set_effort(self, call: CommandCall) -> str:
        """/effort LEVEL"""
        if call.argument not in EFFORTS:
            return (
                f"Effort: {call.session.effort or 'as configured'}. /effort"
                f" {'|'.join(EFFORTS)} changes it."
            )
        await self.sessions.edit(call.session, lambda row: replace(row, effort=call.argument))
        return f"Effort: {call.argument}"

    async def show_or_choose_agent(self, call: CommandCall) -> str:
        """/agent [NAME]"""
        chosen = call.session.agent
        if not call.argument:
            names = dict.fromkeys(
                (*self.specs.names(), chosen)
            )  # the chosen one even when its file is gone
            return "\n".join(
                f"{'*' if name == chosen else '-'} {self._describe(name)}" for name in names
            )
        try:
            warnings = await self.sessions.choose_agent(call.session, call.argument)
        except ConfigError as error:
            return f"Still agent {chosen}: {error}"
        return "\n".join((f"Agent: {call.argument}.", *warnings))

    def _describe(self, name: str) -> str:
        try:
            text = self.specs.get(name).identity.description
        except ConfigError as error:
            text = f"cannot be used: {error}"
        return f"{name}: {text}" if text else name
