"""When a failed tool is tried again, off-budget (E6)."""

from daemon.core.label import Effect
from daemon.tools.base import ToolMeta

WAITS = (0.5, 1.0, 2.0)


def may_run_again(meta: ToolMeta) -> bool:
    """Running it twice does no harm: it only reads inside, or its author declared it so."""
    return meta.effect is Effect.READ or meta.idempotent


def wait_before_retry(meta: ToolMeta, attempt: int) -> float | None:
    """Seconds until the next try after attempt number `attempt` failed for a passing reason; None when there is none."""
    if attempt > meta.retries or not (may_run_again(meta) or meta.effect is Effect.FETCH):
        return None
    return WAITS[min(attempt, len(WAITS)) - 1]
