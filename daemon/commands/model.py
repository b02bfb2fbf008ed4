"""/model /models /auto /effort: which model answers this chat, and how hard it thinks (A2, E13).

/agent: which agent answers this chat, and which there are (B1).
"""

from dataclasses import replace

from daemon.commands.registry import Command, CommandCall, Services
from daemon.commands.sessions import edit_session
from daemon.core.errors import ConfigError
from daemon.core.rows import SessionRow

EFFORTS = ("low", "medium", "high", "max")


async def run_model(desk: Services, spoken: CommandCall) -> str:
    """Show, or pin, the model of this chat."""
    if not spoken.argument:
        pinned = spoken.session.model
        return (
            f"Model: {pinned} (pinned; /auto unpins)"
            if pinned
            else f"Model: {desk.models.list_models()[0]}"
        )
    await edit_session(desk, spoken.session, lambda row: replace(row, model=spoken.argument))
    known = spoken.argument in desk.models.list_models()
    return f"Model: {spoken.argument}." + (
        "" if known else " It is not in the config; I will ask the provider for it."
    )


async def run_models(desk: Services, spoken: CommandCall) -> str:
    """The configured ones."""
    now = spoken.session.model or desk.models.list_models()[0]
    return "\n".join(
        f"{'*' if name == now else '-'} {name}"
        for name in dict.fromkeys((*desk.models.list_models(), now))
    )


async def run_auto(desk: Services, spoken: CommandCall) -> str:
    """Back to the configured choice."""
    await edit_session(desk, spoken.session, lambda row: replace(row, model=""))
    return f"Model: {desk.models.list_models()[0]}"


async def run_effort(desk: Services, spoken: CommandCall) -> str:
    """How hard the model thinks, where it can."""
    if spoken.argument not in EFFORTS:
        return f"Effort: {spoken.session.effort or 'as configured'}. /effort {'|'.join(EFFORTS)} changes it."
    await edit_session(desk, spoken.session, lambda row: replace(row, effort=spoken.argument))
    return f"Effort: {spoken.argument}"


COMMANDS = (
    Command("model", "show the model of this chat, or pin one: /model NAME", run_model),
    Command("models", "list the models", run_models),
    Command("auto", "unpin the model", run_auto),
    Command("effort", "how hard the model thinks: /effort low|medium|high|max", run_effort),
)


async def choose_agent(desk: Services, session: SessionRow, name: str) -> str:
    """It answers from the next message on; gives what is worth knowing of it. Raises ConfigError: nothing changed."""
    warnings = desk.specs.warnings_of(name)
    await edit_session(desk, session, lambda row: replace(row, agent=name))
    return "\n".join((f"Agent: {name}.", *warnings))


async def run_agent(desk: Services, spoken: CommandCall) -> str:
    """Show the agents, or set this chat's."""
    if not spoken.argument:
        return "\n".join(
            _agent_line(desk, name, spoken.session.agent)
            for name in _agent_names(desk, spoken.session.agent)
        )
    try:
        return await choose_agent(desk, spoken.session, spoken.argument)
    except ConfigError as error:
        return f"Still agent {spoken.session.agent}: {error}"


def _agent_names(desk: Services, chosen: str) -> list[str]:
    """The chosen one too, when its file is gone."""
    return list(dict.fromkeys((*desk.specs.names(), chosen)))


def _agent_line(desk: Services, name: str, chosen: str) -> str:
    mark = "*" if name == chosen else "-"
    try:
        told = desk.specs.get(name).identity.description
    except ConfigError as error:
        told = f"cannot be used: {error}"
    return f"{mark} {name}: {told}" if told else f"{mark} {name}"


AGENT_COMMANDS = (
    Command("agent", "list the agents, or choose this chat's: /agent NAME", run_agent),
)
