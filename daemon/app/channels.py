"""The channels of the config: what comes in goes to the house, what the outbox holds goes out (DESIGN 3)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from daemon.access.directory import Directory
from daemon.access.revocation import apply_removals
from daemon.app.config import ConfiguredAccount, list_accounts
from daemon.app.daemon import ChannelDeps
from daemon.app.notifier import OwnerNotifier
from daemon.core import value
from daemon.gateway.admission import Admission
from daemon.gateway.buttons import ButtonHandler
from daemon.gateway.host import ChannelHost
from daemon.outbox.approval_messages import ApprovalMessages
from daemon.outbox.channel_supervisor import (
    FAILING_S,
    REFUSED_PAUSE,
    SILENT_S,
    TELL_AFTER_S,
    ChannelState,
    ChannelSupervisor,
)
from daemon.outbox.dispatcher import OutboxDispatcher
from daemon.outbox.live_drafts import LiveDrafts
from daemon.outbox.rate_limit import RateLimiter
from daemon.outbox.sender import GIVE_UP_S, OutboxSender, delete_stale_copies
from daemon.tools.workspace.inbox_folder import InboxFolder


@value
class ChannelTimeouts:
    """How long things may take, in seconds: until a channel that is silent, or ails, counts as down, and until the owner is told;
    until a message is given up; until a platform that refused us is asked again; until what is to go out at the end has gone.
    """

    silent_s: float = SILENT_S
    ailing_s: float = FAILING_S
    tell_after_s: float = TELL_AFTER_S
    give_up_s: float = GIVE_UP_S
    refused_pause_s: float = REFUSED_PAUSE
    flush_s: float = 5.0


@asynccontextmanager
async def run_channels(
    works: ChannelDeps,
    accounts: Sequence[ConfiguredAccount] | None = None,
    times: ChannelTimeouts | None = None,
) -> AsyncIterator[None]:
    """The channels of the config, or these, listen, and the outbox is emptied as long as this is open; what is ready then still
    goes out. Raises ConfigError for a channel that cannot be made.
    """
    times = times or ChannelTimeouts()
    accounts, store = (
        list_accounts(works.config) if accounts is None else accounts,
        works.store,
    )
    await asyncio.to_thread(InboxFolder(works.paths.inbox).remove_unfinished)
    await delete_stale_copies(store, works.paths.outbox)
    for one in accounts:
        works.channel_states[one.name] = await _open_channel(works, one, times)
        works.roles_by_channel[one.name] = one.list_roles()
    telling = OwnerNotifier(store, works.clock, works.new_id, works.is_channel_up)
    drafts = LiveDrafts(
        store, works.clock, works.live, works.inbox.sessions.find_awake, works.channel_states
    )
    closing = ApprovalMessages(store, works.live, works.channel_states)
    postman = OutboxSender(
        store,
        works.clock,
        drafts,
        closing,
        works.is_channel_up,
        telling.post_notice,
        works.paths.outbox,
        times.give_up_s,
    )
    delivery = OutboxDispatcher(store, works.channel_states, postman)
    hosts = {one.name: _make_host(works, one) for one in accounts}
    tending = ChannelSupervisor(
        works.channel_states,
        lambda outlet: hosts[outlet.name],
        telling,
        times.tell_after_s,
        times.refused_pause_s,
    )
    followers = (drafts.follow_turn, closing.on_turn_start)
    works.live.turn_listeners.extend(followers)
    drafts.start()
    await closing.start()
    await apply_removals(Directory(store, works.clock), works.roles_by_channel)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(delivery.run(), name="delivery"),
            group.create_task(tending.run(), name="channels"),
        ]
        try:
            yield
        finally:
            for follower in followers:
                works.live.turn_listeners.remove(follower)
            await delivery.drain(times.flush_s)
            for task in tasks:
                task.cancel()
            await asyncio.gather(
                drafts.aclose(), closing.aclose(), *(one.aclose() for one in hosts.values())
            )


async def _open_channel(
    works: ChannelDeps, one: ConfiguredAccount, times: ChannelTimeouts
) -> ChannelState:
    await asyncio.to_thread(one.import_channel)
    channel = one.create_channel()
    pacing = RateLimiter(channel.rate_limit, works.clock.monotonic, asyncio.sleep)
    return ChannelState(channel, works.clock, pacing, times.silent_s, times.ailing_s)


def _make_host(works: ChannelDeps, one: ConfiguredAccount) -> ChannelHost:
    store, people = works.store, Directory(works.store, works.clock)
    visitors = Admission(
        one.name, works.roles_by_channel[one.name], people, store, works.clock, works.new_id
    )
    return ChannelHost(
        works.channel_states[one.name],
        works.store,
        works.clock,
        works.inbox,
        works.commands,
        ButtonHandler(works.store, works.clock, works.approvals),
        visitors,
        works.redactor,
    )
