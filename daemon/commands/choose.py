"""/model /models /auto /effort: which model answers this chat, and how hard it thinks (A2, E13)."""

from dataclasses import replace

from daemon.commands.base import Command, Desk, Spoken
from daemon.commands.control import change

EFFORTS = ("low", "medium", "high", "max")


async def model(desk: Desk, spoken: Spoken) -> str:
    """Show, or pin, the model of this chat."""
    if not spoken.argument:
        pinned = spoken.session.model
        return f"Model: {pinned} (pinned; /auto unpins)" if pinned else f"Model: {desk.models.names()[0]}"
    await change(desk, spoken.session, lambda row: replace(row, model=spoken.argument))
    known = spoken.argument in desk.models.names()
    return f"Model: {spoken.argument}." + ("" if known else " It is not in the config; I will ask the provider for it.")


async def models(desk: Desk, spoken: Spoken) -> str:
    """The configured ones."""
    now = spoken.session.model or desk.models.names()[0]
    return "\n".join(f"{'*' if name == now else '-'} {name}" for name in dict.fromkeys((*desk.models.names(), now)))


async def auto(desk: Desk, spoken: Spoken) -> str:
    """Back to the configured choice."""
    await change(desk, spoken.session, lambda row: replace(row, model=""))
    return f"Model: {desk.models.names()[0]}"


async def effort(desk: Desk, spoken: Spoken) -> str:
    """How hard the model thinks, where it can."""
    if spoken.argument not in EFFORTS:
        return f"Effort: {spoken.session.effort or 'as configured'}. /effort {'|'.join(EFFORTS)} changes it."
    await change(desk, spoken.session, lambda row: replace(row, effort=spoken.argument))
    return f"Effort: {spoken.argument}"


COMMANDS = (
    Command("model", "show the model of this chat, or pin one: /model NAME", model),
    Command("models", "list the models", models),
    Command("auto", "unpin the model", auto),
    Command("effort", "how hard the model thinks: /effort low|medium|high|max", effort),
)
