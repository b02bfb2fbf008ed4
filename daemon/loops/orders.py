"""What somebody wants a loop to do, held against what the agent's spec allows (C7)."""

from datetime import datetime

from pydantic import ValidationError

from daemon.agent.specs.parts import LoopPart
from daemon.core.errors import AidaemonError, ConfigError, UsageError
from daemon.core.label import Label
from daemon.core.loops import CHANNEL, LoopRow, Order
from daemon.core.places import place_of
from daemon.core.rows import InboxRow, SessionRow
from daemon.loops.progress import message_of


class LoopRefused(AidaemonError):
    """This loop cannot be started now."""


class LoopBusy(LoopRefused):
    """The agent is at another loop."""


class NoSuchAgent(UsageError):
    """There is no agent of this name."""


class LoopNotEnabled(ConfigError):
    """The agent's settings do not allow loops."""


def settings_for(order: Order, spec: LoopPart) -> LoopPart:
    """The agent's settings with what the order says instead. Raises LoopNotEnabled, UsageError."""
    if not spec.enabled:
        where = "[agent.loop] in config.toml" if order.agent == "default" else f"[loop] in agents/{order.agent}.toml"
        raise LoopNotEnabled(f"loops are not enabled for the agent {order.agent!r}; put enabled = true under {where}")
    if not order.message.strip():
        raise UsageError("message: expected a text that is not empty")
    criterion = order.criterion or spec.criterion
    kept = spec.value if criterion == spec.criterion else ""
    told = {
        "enabled": True,
        "criterion": criterion,
        "value": kept if order.value is None else order.value,
        "max_iterations": spec.max_iterations if order.max_iterations is None else order.max_iterations,
    }
    try:
        return LoopPart.model_validate(told)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}".removeprefix(": ") for fault in error.errors())
        raise UsageError("; ".join(faults).replace("Value error, ", "")) from error


def loop_of(order: Order, settings: LoopPart, root: SessionRow, loop_id: str, now: datetime) -> LoopRow:
    """The loop as it begins."""
    return LoopRow(
        id=loop_id,
        agent=order.agent,
        root=root.root or root.id,
        sender=order.sender,
        label=root.label,
        message=order.message,
        criterion=settings.criterion,
        value=settings.value,
        max_iterations=settings.max_iterations,
        started_at=now,
        role=order.role,
    )


def root_of(session: str, now: datetime) -> SessionRow:
    """A conversation that does not exist yet; the doors let nobody name one of others."""
    return SessionRow(session, *place_of(session), Label.TRUSTED, now)


def lane_of(loop: LoopRow, root: SessionRow, now: datetime) -> SessionRow:
    """The session of the attempts: its people are those of the conversation that started it (C12)."""
    return SessionRow(
        loop.lane,
        root.channel,
        root.chat,
        root.label,
        now,
        agent=loop.agent,
        model=root.model,
        effort=root.effort,
        root=loop.root,
    )


def attempt_of(loop: LoopRow, now: datetime) -> InboxRow:
    """The message that begins the attempt; its names follow from loop and number, so the journal takes it once."""
    turn = loop.turn(loop.attempt)
    external = f"{loop.id}/{loop.attempt}"
    said = message_of(loop)
    return InboxRow(turn, CHANNEL, "", external, loop.lane, loop.sender, said, loop.label, turn, now, role=loop.role)
