"""[loops] in config.toml.

What one attempt leaves to the next: a line in the progress log, and nothing else (C1, C2).

What somebody wants a loop to do, held against what the agent's spec allows (C7).
"""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.agent.spec.sections import LoopSection
from daemon.core import value
from daemon.core.errors import AidaemonError, ConfigError, UsageError
from daemon.core.ids import parse_session_id
from daemon.core.rows import (
    LOOP_CHANNEL,
    InboxRow,
    LoopOrder,
    LoopRow,
    SessionRow,
)
from daemon.core.trust import Label
from daemon.tools.criteria_checks import CriteriaChecker


@value
class CriterionResult:
    """Whether it is met. `warning` is what a person should know of how it was looked at."""

    met: bool
    warning: str = ""


@value
class CriterionChecker:
    """Looks; what cannot be looked at is not met."""

    checks: CriteriaChecker

    def obstacle(self, loop: LoopRow) -> str:
        """Why this criterion cannot be looked at on this machine; empty when it can."""
        return self.checks.obstacle if loop.criterion == "test_pass" else ""

    async def check(self, loop: LoopRow, output: str) -> CriterionResult:
        """Max iterations and manual are never met by themselves."""
        match loop.criterion:
            case "regex":
                looked = await self.checks.match_pattern(loop.value, output)
            case "test_pass":
                looked = await self.checks.run_command(loop.value)
            case "max_iterations" | "manual":
                return CriterionResult(False)
        return CriterionResult(looked.met, looked.warning)


class LoopsConfig(BaseModel):
    """What becomes of loops that a live page started when nobody looks any more (C10)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    teardown_on_disconnect: bool = Field(
        True, description="end them when their user's last connection is gone"
    )
    teardown_grace_ms: int = Field(
        60_000, ge=0, le=86_400_000, description="milliseconds to come back in before that"
    )


SUMMARY_CHARS = 300
NO_OUTPUT = "(it said nothing)"
ADVICE = (
    "Iteration {attempt} of {most}. Earlier attempts did not finish this; the log above is all that is left of them."
    " Review the work that is there first, then improve on it: do better than the attempts before."
)


def summarize_output(output: str) -> str:
    """The first 300 characters or so, in one line, cut between words."""
    text = " ".join(output.split())
    if len(text) <= SUMMARY_CHARS:
        return text or NO_OUTPUT
    cut = text[:SUMMARY_CHARS]
    head, _, _ = cut.rpartition(" ")
    return f"{head or cut} …"


def attempt_message(loop: LoopRow) -> str:
    """What the attempt is told: the first one the message and nothing else, later ones what came before, too."""
    if loop.attempt == 1:
        return loop.message
    log = "\n".join(f"{number}. {line}" for number, line in enumerate(loop.learned, 1))
    advice = ADVICE.format(attempt=loop.attempt, most=loop.max_iterations)
    return f"{loop.message}\n\n## Progress Log\n\n{log}\n\n{advice}"


class LoopNotStarted(AidaemonError):
    """This loop cannot be started now."""


class LoopBusy(LoopNotStarted):
    """The agent is at another loop."""


class UnknownAgent(UsageError):
    """There is no agent of this name."""


class LoopNotEnabled(ConfigError):
    """The agent's settings do not allow loops."""


def resolve_settings(order: LoopOrder, spec: LoopSection) -> LoopSection:
    """The agent's settings with what the order says instead. Raises LoopNotEnabled, UsageError."""
    if not spec.enabled:
        where = (
            "[agent.loop] in config.toml"
            if order.agent == "default"
            else f"[loop] in agents/{order.agent}.toml"
        )
        raise LoopNotEnabled(
            f"loops are not enabled for the agent {order.agent!r}; put enabled = true under {where}"
        )
    if not order.message.strip():
        raise UsageError("message: expected a text that is not empty")
    criterion = order.criterion or spec.criterion
    kept = spec.value if criterion == spec.criterion else ""
    told = {
        "enabled": True,
        "criterion": criterion,
        "value": kept if order.value is None else order.value,
        "max_iterations": spec.max_iterations
        if order.max_iterations is None
        else order.max_iterations,
    }
    try:
        return LoopSection.model_validate(told)
    except ValidationError as error:
        faults = (
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}".removeprefix(": ")
            for fault in error.errors()
        )
        raise UsageError("; ".join(faults).replace("Value error, ", "")) from error


def new_loop(
    order: LoopOrder, settings: LoopSection, root: SessionRow, loop_id: str, now: datetime
) -> LoopRow:
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


def new_root_session(session: str, now: datetime) -> SessionRow:
    """A conversation that does not exist yet; the doors let nobody name one of others."""
    return SessionRow(session, *parse_session_id(session), Label.TRUSTED, now)


def attempt_session(loop: LoopRow, root: SessionRow, now: datetime) -> SessionRow:
    """The session of the attempts: its people are those of the conversation that started it (C12)."""
    return SessionRow(
        loop.session,
        root.channel,
        root.chat,
        root.label,
        now,
        agent=loop.agent,
        model=root.model,
        effort=root.effort,
        root=loop.root,
    )


def attempt_input(loop: LoopRow, now: datetime) -> InboxRow:
    """The message that begins the attempt; its names follow from loop and number, so the journal takes it once."""
    turn = loop.turn_id(loop.attempt)
    external = f"{loop.id}/{loop.attempt}"
    said = attempt_message(loop)
    return InboxRow(
        turn,
        LOOP_CHANNEL,
        "",
        external,
        loop.session,
        loop.sender,
        said,
        loop.label,
        turn,
        now,
        role=loop.role,
    )
