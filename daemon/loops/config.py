"""A loop's settings: [loops] in config.toml, the order against the agent's spec, what each attempt
is told (C1, C2, C7).
"""

from datetime import datetime

from pydantic import Field, ValidationError

from daemon.agent.spec.sections import LoopSection, Section
from daemon.core.errors import AidaemonError, ConfigError, UsageError
from daemon.core.quoted import find_quoted
from daemon.core.requests import LoopOrder
from daemon.core.rows import LOOP_CHANNEL, InboxRow, LoopRow
from daemon.core.trust import Label
from daemon.tools.criteria_checks import CriteriaChecker, CriterionResult


async def check_criterion(
    checks: CriteriaChecker, loop: LoopRow, output: str, label: Label = Label.TRUSTED
) -> CriterionResult:
    """`max_iterations` and `manual` are never met by themselves."""
    if loop.criterion == "regex":
        return await checks.match_pattern(loop.value, output)
    if loop.criterion == "test_pass":
        tainted = loop.label.join_with(label) is Label.UNTRUSTED
        return await checks.run_command(loop.value, loop.turn_id(loop.attempt), tainted=tainted)
    return CriterionResult(False)


class LoopsConfig(Section):
    """What becomes of loops that a live page started when nobody looks any more (C10)."""

    teardown_on_disconnect: bool = Field(
        True, description="end them when their user's last connection is gone"
    )
    teardown_grace_ms: int = Field(
        60_000, ge=0, le=86_400_000, description="milliseconds to come back in before that"
    )


SUMMARY_CHARS, LONGEST_WORD = 300, 40
NO_OUTPUT = "(it said nothing)"
ADVICE = (
    "Iteration {attempt} of {most}. Earlier attempts did not finish this; the log above is all that"
    " is left of them. Review the work that is there first, then improve on it: do better than the"
    " attempts before."
)


def summarize_output(output: str) -> str:
    """The first 300 characters, in one line; cut at the end of a word, where one is near."""
    text = " ".join(output.split())
    if len(text) <= SUMMARY_CHARS:
        return text or NO_OUTPUT
    cut = text[:SUMMARY_CHARS]
    head, _, rest = cut.rpartition(" ")
    return f"{head if len(rest) <= LONGEST_WORD else cut} …"


def attempt_message(loop: LoopRow) -> str:
    """What the attempt is told: the first one the message and nothing else, later ones what came
    before, too.
    """
    if loop.attempt == 1:
        return loop.message
    log = "\n".join(f"{number}. {line}" for number, line in enumerate(loop.learned, 1))
    advice = ADVICE.format(attempt=loop.attempt, most=loop.max_iterations)
    return f"{loop.message}\n\n## Progress Log\n\n{log}\n\n{advice}"


class LoopNotStarted(AidaemonError):
    """This loop cannot be started now."""


class UnknownAgent(UsageError):
    """There is no agent of this name."""


class LoopNotEnabled(ConfigError):
    """The agent's settings do not allow loops."""


def resolve_settings(order: LoopOrder, spec: LoopSection) -> LoopSection:
    """The agent's settings, overridden by the order. Raises LoopNotEnabled, UsageError."""
    if not spec.enabled:
        default = order.agent == "default"
        where = "[agent.loop] in config.toml" if default else f"[loop] in agents/{order.agent}.toml"
        raise LoopNotEnabled(
            f"loops are not enabled for the agent {order.agent!r}; put enabled = true under {where}"
        )
    if not order.message.strip():
        raise UsageError("message: expected a text that is not empty")
    changed: dict[str, object] = {"criterion": order.criterion or spec.criterion}
    if changed["criterion"] != spec.criterion:
        changed["value"] = ""  # the spec's belongs to its own criterion
    given = {"value": order.value, "max_iterations": order.max_iterations}
    given = {name: setting for name, setting in given.items() if setting is not None}
    try:
        return LoopSection.model_validate(spec.model_dump() | changed | given)
    except ValidationError as error:
        errors = (
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}".removeprefix(": ")
            for one in error.errors()
        )
        raise UsageError("; ".join(errors).replace("Value error, ", "")) from error


def attempt_input(loop: LoopRow, now: datetime) -> InboxRow:
    """The message that begins the attempt; its names follow from loop and number, so the journal
    takes it once.
    """
    turn, text = loop.turn_id(loop.attempt), attempt_message(loop)
    return InboxRow(
        turn,
        LOOP_CHANNEL,
        "",
        f"{loop.id}/{loop.attempt}",
        loop.session,
        loop.sender,
        text,
        loop.label,
        turn,
        now,
        role=loop.role,
        quoted=find_quoted(loop.message),
        private=loop.private,
        composed=True,
    )
