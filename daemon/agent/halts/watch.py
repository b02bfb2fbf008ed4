"""Why turns end, counted by agent; an alarm for one that runs out of its budget again and again (D6)."""

from collections import deque
from dataclasses import dataclass, field

from daemon.core.events import Alarm
from daemon.core.outcomes import Stop
from daemon.store.protocol import ReadTx, Store

LATEST = 10
TOO_OFTEN = 3
EXHAUSTED = (Stop.MAX_ITERATIONS, Stop.OVER_BUDGET, Stop.DEADLINE)
ALARM = (
    "The agent {agent} ran out of its budget in {count} of its last {of} turns ({reasons}). Its limits may be too low for what "
    "it is asked, or it goes about it badly: `aidaemon runs` shows them."
)


@dataclass(slots=True)
class Watch:
    """The latest ends of each agent, kept beside the rows that they come from. One alarm for each time the mark is reached."""

    _ends: dict[str, deque[Stop]] = field(default_factory=dict)

    async def load(self, store: Store, agents: list[str]) -> None:
        """Take up what the journal says; what led to the last alarm leads to no other."""

        def look(tx: ReadTx) -> dict[str, list[Stop]]:
            return {agent: tx.recent_stops(agent, LATEST) for agent in agents}

        for agent, stops in (await store.read(look)).items():
            self._ends[agent] = deque(reversed(stops), maxlen=LATEST)

    def ended(self, agent: str, reason: Stop) -> Alarm | None:
        """Note it; an alarm when this end is the third in ten that exhausted the budget, or more."""
        ends = self._ends.setdefault(agent, deque(maxlen=LATEST))
        ends.append(reason)
        spent = [end for end in ends if end in EXHAUSTED]
        if reason not in EXHAUSTED or len(spent) < TOO_OFTEN:
            return None
        ends.clear()  # the next alarm needs three more
        reasons = ", ".join(sorted({end.value for end in spent}))
        return Alarm("budget_exhausted", ALARM.format(agent=agent, count=len(spent), of=LATEST, reasons=reasons))
