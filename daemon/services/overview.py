"""What the daemon is at a glance: what it costs, and whether its parts answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from daemon import VERSION
from daemon.agent.budgets import UsageToday
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.reports import CostView, Spent, StatusView
from daemon.ops.snapshots import list_snapshots
from daemon.outbox.channel_supervisor import ChannelState
from daemon.store.journal import Store, Tx

MOST_SESSIONS = 20


class ServerStates(Protocol):
    """The MCP servers of the config."""

    @property
    def configs(self) -> Mapping[str, object]:
        """By name."""
        ...

    def problems(self) -> Mapping[str, str]:
        """What is wrong, by name."""
        ...


@value
class Overview:
    """Reads it off the running parts. `backups`: the folder of the daily ones."""

    store: Store = field(repr=False)
    clock: Clock
    today: Callable[[], UsageToday]
    channels: Mapping[str, ChannelState]
    servers: ServerStates
    list_models: Callable[[], Sequence[str]]
    backups: Path
    problems: Callable[[], Sequence[str]]
    notes: Callable[[], Sequence[str]]

    def list_channels(self) -> dict[str, str]:
        """Each channel, and why it does not answer."""
        return {
            one.name: "" if one.up.is_set() and not one.is_deaf else one.describe()
            for one in self.channels.values()
        }

    def list_servers(self) -> dict[str, str]:
        """Each MCP server, and why its tools cannot be used."""
        problems = self.servers.problems()
        return {name: problems.get(name, "") for name in self.servers.configs}

    async def compute_costs(self, days: int) -> CostView:
        """Of so many days, today included."""
        since, today = self.clock.now() - timedelta(days=days - 1), self.today()

        def read(tx: Tx) -> tuple[list[Spent], list[Spent], list[Spent]]:
            models = [
                Spent(
                    f"{row.provider}/{row.model}",
                    row.input_tokens + row.output_tokens,
                    row.usd,
                    row.calls,
                )
                for row in tx.sum_usage(since)
            ]
            by_day = [
                Spent(day.isoformat(), tokens, usd, calls)
                for day, tokens, usd, calls in tx.list_day_costs(since)
            ]
            named = [Spent(*found) for found in tx.list_session_costs(since, MOST_SESSIONS)]
            return by_day, models, named

        parts = await self.store.read(read)
        limits = today.max_usd, today.max_tokens
        return CostView(*parts, today.usd, today.tokens, *limits)

    def describe(self) -> StatusView:
        """The parts as they are now."""
        newest = max(list_snapshots(self.backups), default=None)
        return StatusView(
            VERSION,
            [*self.problems()],
            [*self.notes()],
            self.list_channels(),
            self.list_servers(),
            [*self.list_models()],
            newest.isoformat() if newest else None,
        )
