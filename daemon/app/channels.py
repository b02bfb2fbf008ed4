"""Runs the channels of the config: messages in, the outbox out (architecture.md)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from daemon.access.directory import Directory, apply_removals
from daemon.app.config import ConfiguredAccount, list_accounts, list_mailboxes
from daemon.app.daemon import Daemon
from daemon.core import value
from daemon.core.ids import split_channel
from daemon.gateway.admission import Admission
from daemon.gateway.buttons import ButtonHandler
from daemon.gateway.host import ChannelHost
from daemon.outbox.channel_supervisor import (
    FAILING_S,
    LOOK_EVERY_S,
    REFUSED_PAUSE,
    SILENT_S,
    TELL_AFTER_S,
    ChannelState,
    ChannelSupervisor,
)
from daemon.outbox.health_alarm import HealthAlarm, Outage
from daemon.outbox.held import HeldMessages
from daemon.outbox.journal_alarm import JournalAlarm
from daemon.outbox.live_messages import ApprovalMessages, LiveDrafts
from daemon.outbox.message import delete_stale_copies
from daemon.outbox.sender import GIVE_UP_S, OutboxSender
from daemon.tools.workspace.inbox_folder import InboxFolder

MIN_FAILURES = 2  # calls of a model: one may be nothing


@value
class ChannelTimeouts:
    """How long things may take, in seconds: until a channel that is silent, or ails, counts as
    down, and until the owner is told; until a message is given up; until a platform that refused us
    is asked again; until what is to go out at the end has gone.
    """

    silent_s: float = SILENT_S
    ailing_s: float = FAILING_S
    tell_after_s: float = TELL_AFTER_S
    give_up_s: float = GIVE_UP_S
    refused_pause_s: float = REFUSED_PAUSE
    flush_s: float = 5.0


@asynccontextmanager
async def run_channels(
    daemon: Daemon,
    accounts: Sequence[ConfiguredAccount] | None = None,
    times: ChannelTimeouts | None = None,
) -> AsyncIterator[None]:
    """The channels of the config, or these, listen, and the outbox is emptied as long as this is
    open; what is ready then still goes out. Raises ConfigError for a channel that cannot be made.
    """
    times = times or ChannelTimeouts()
    accounts = list_accounts(daemon.config) if accounts is None else accounts
    store, clock, states = daemon.store, daemon.clock, daemon.channel_states
    await asyncio.to_thread(InboxFolder(daemon.paths.inbox).remove_unfinished)
    await asyncio.to_thread(daemon.uploads.remove_old, clock.now())
    await delete_stale_copies(store, daemon.paths.outbox)
    for one in accounts:
        states[one.name] = await _make_state(daemon, one, times)
        daemon.config_roles[one.name] = one.roles
    drafts = LiveDrafts(store, clock, daemon.event_bus, daemon.sessions.find_awake, states)
    approvals = ApprovalMessages(store, daemon.event_bus, states)
    held = _make_held(daemon)
    sender = OutboxSender(
        store,
        daemon.clock,
        daemon.channel_states,
        drafts,
        approvals,
        daemon.notifier.post_failure,
        daemon.paths.outbox,
        held,
        times.give_up_s,
    )
    people = Directory(store, clock)
    hosts = _make_hosts(daemon, people)
    look_s = min(LOOK_EVERY_S, times.tell_after_s)
    tell = daemon.notifier
    supervisor = ChannelSupervisor(states, hosts, tell, look_s, times.refused_pause_s)
    followers = (drafts.follow_turn, approvals.on_turn_start)
    daemon.event_bus.turn_listeners.extend(followers)
    drafts.start()
    await approvals.start()
    await apply_removals(people, daemon.config_roles)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(sender.run(), name="outbox"),
            group.create_task(held.run(), name="held messages"),
            group.create_task(supervisor.run(), name="channels"),
            group.create_task(JournalAlarm(store, states).run(), name="journal alarm"),
            group.create_task(_make_alarm(daemon, times).run(), name="health alarm"),
        ]
        try:
            yield
        finally:
            for follower in followers:
                daemon.event_bus.turn_listeners.remove(follower)
            await sender.drain(times.flush_s)
            for task in tasks:
                task.cancel()
            await asyncio.gather(
                drafts.aclose(), approvals.aclose(), *(one.aclose() for one in hosts.values())
            )


def _make_alarm(daemon: Daemon, times: ChannelTimeouts) -> HealthAlarm:
    def find_outages() -> dict[str, Outage | None]:
        """Of a server nothing that it says itself: it must not talk to the owner like this."""
        found: dict[str, Outage | None] = {
            f"The MCP server {name}": Outage("/mcp says why") if is_out else None
            for name, is_out in daemon.servers.list_states().items()
        }
        routes, name = daemon.routes, "The model"
        is_out = routes.failures >= MIN_FAILURES
        found[name] = Outage(routes.failing_why, routes.failing_since) if is_out else None
        return found

    return HealthAlarm(find_outages, daemon.notifier, daemon.clock, times.tell_after_s)


async def _make_state(
    daemon: Daemon, account: ConfiguredAccount, times: ChannelTimeouts
) -> ChannelState:
    await asyncio.to_thread(account.import_channel)
    channel = account.create_channel()
    seconds = times.silent_s, times.ailing_s, times.tell_after_s
    state = ChannelState(channel, daemon.clock, *seconds)
    state.moved_chats = await daemon.store.read(lambda tx: tx.list_moved_chats(state.name))
    return state


def _make_held(daemon: Daemon) -> HeldMessages:
    return HeldMessages(
        daemon.store,
        daemon.clock,
        lambda: daemon.runtime.loaded.config.notify,
        lambda: daemon.config.delivery.hold_seconds,
    )


def _make_hosts(daemon: Daemon, people: Directory) -> dict[str, ChannelHost]:
    store, clock, hosts = daemon.store, daemon.clock, dict[str, ChannelHost]()
    buttons = ButtonHandler(store, clock, daemon.approvals)
    boxes = list_mailboxes(daemon.config)
    mail = daemon.make_mail_trigger(boxes) if boxes else None
    for name, roles in daemon.config_roles.items():
        account, kind = split_channel(name)
        hosts[name] = ChannelHost(
            daemon.channel_states[name],
            store,
            clock,
            daemon.inbox,
            daemon.commands,
            buttons,
            Admission(name, (kind, account), roles, people, store, clock, daemon.new_id),
            daemon.redactor,
            mail if name in boxes else None,
        )
    return hosts
