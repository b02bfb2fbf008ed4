"""GET /metrics: what runs, what it uses up and what it costs, in Prometheus' text form (D1)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta

from daemon import VERSION
from daemon.agent.budgets import UsageToday, list_uses
from daemon.agent.context.history import rebuild_turn
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.rows import UsageRow
from daemon.core.turn import Turn
from daemon.store.journal import Store, Tx

PREFIX = "aidaemon_"
MOST_TURNS = 100
EVER, RECENT = datetime(1, 1, 1, tzinfo=UTC), timedelta(days=1)
Labels = Mapping[str, str]


@value
class Metric:
    """One name with its values; `kind` is counter or gauge."""

    name: str
    kind: str
    help: str
    values: Sequence[tuple[Labels, float]]

    def render(self) -> str:
        """With HELP and TYPE; "" without a value."""
        name = f"{PREFIX}{self.name}"
        lines = [f"# HELP {name} {self.help}", f"# TYPE {name} {self.kind}"]
        for labels, number in self.values:
            pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
            lines.append(f"{name}{f'{{{pairs}}}' if pairs else ''} {number:.10g}")
        return "\n".join(lines) if self.values else ""


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@value
class Metrics:
    """`channels` and `servers` say what is wrong with each, "" for nothing."""

    store: Store = field(repr=False)
    clock: Clock
    today: Callable[[], UsageToday]
    channels: Callable[[], Mapping[str, str]]
    servers: Callable[[], Mapping[str, str]]
    problems: Callable[[], Sequence[str]]

    async def render(self) -> str:
        """All of them, now. Raises StoreUnavailable."""
        stored = await self.store.read(self._read)
        return "\n".join(filter(None, (one.render() for one in (*self._look(), *stored)))) + "\n"

    def _look(self) -> Iterable[Metric]:
        today = self.today()
        used = {"tokens": today.tokens, "usd": today.usd}
        most = {"tokens": today.max_tokens, "usd": today.max_usd}
        healthy = not self.problems()
        return (
            Metric("info", "gauge", "The running version.", [({"version": VERSION}, 1)]),
            Metric("healthy", "gauge", "1 while /health says ok.", [({}, healthy)]),
            _states("channel_up", "1 while the channel answers.", "channel", self.channels()),
            _states("mcp_server_up", "1 while its tools can be used.", "server", self.servers()),
            Metric(
                "day_used", "gauge", "Used up since midnight, the owner's.",
                [({"of": name}, number) for name, number in used.items()],
            ),
            Metric(
                "day_limit", "gauge", "What the day may use up, where it has a limit.",
                [({"of": name}, number) for name, number in most.items() if number],
            ),
        )  # fmt: skip

    def _read(self, tx: Tx) -> list[Metric]:
        rows = tx.list_running_turns(MOST_TURNS)
        turns = [rebuild_turn(row.id, row.session, tx.list_events(row.id)) for row in rows]
        waiting = {
            "turns": len(rows),
            "messages": tx.count_new_inputs(),
            "approvals": len(tx.list_pending(None)),
        }
        since = self.clock.now() - RECENT
        stops, failed = tx.count_stops(since), tx.list_failed(since)
        return [
            Metric(
                "open", "gauge", "Turns that run, messages that wait, questions that wait.",
                [({"of": name}, number) for name, number in waiting.items()],
            ),
            *_list_turn_uses(turns),
            *_list_totals(tx.sum_usage(EVER)),
            Metric(
                "turns_ended", "gauge", "Turns that ended within a day, by the reason.",
                [({"reason": reason}, count) for reason, count in sorted(stops.items())],
            ),
            Metric(
                "deliveries_failed", "gauge", "Messages refused for good within a day.",
                [({}, len(failed))],
            ),
        ]  # fmt: skip


def _states(name: str, about: str, label: str, faults: Mapping[str, str]) -> Metric:
    states = [({label: one}, not fault) for one, fault in sorted(faults.items())]
    return Metric(name, "gauge", about, states)


def _list_turn_uses(turns: Sequence[Turn]) -> list[Metric]:
    """What each running turn has used up, beside its limits: each is a breaker of its own."""
    uses = [({"turn": turn.id, "of": use.of}, use) for turn in turns for use in list_uses(turn)]
    used = [(labels, use.used) for labels, use in uses]
    most = [(labels, use.limit) for labels, use in uses if use.limit is not None]
    return [
        Metric("turn_used", "gauge", "What a running turn has used up.", used),
        Metric("turn_limit", "gauge", "What it may use up.", most),
    ]


def _list_totals(rows: Sequence[UsageRow]) -> list[Metric]:
    models = [({"provider": row.provider, "model": row.model}, row) for row in rows]
    tokens = [
        ({**labels, "kind": kind}, number)
        for labels, row in models
        for kind, number in (
            ("input", row.input_tokens),
            ("output", row.output_tokens),
            ("cached", row.cached_tokens),
        )
    ]
    calls = [(labels, row.calls) for labels, row in models]
    usd = [(labels, row.usd) for labels, row in models if row.usd is not None]
    return [
        Metric("model_calls_total", "counter", "Calls of models.", calls),
        Metric("model_tokens_total", "counter", "Tokens of models.", tokens),
        Metric("model_usd_total", "counter", "USD of models, where their price is known.", usd),
    ]
