"""What must hold of permissions, of what strangers send, and of pinned rules, however often it died (A13, A15, A16, F5; B5)."""

import re
from collections import Counter
from collections.abc import Iterator

from daemon.core.events import ApprovalAnswered, CallJudged, UserSaid
from daemon.core.trust import APPROVALS, Decision
from tests.e2e.crash.model import names
from tests.e2e.crash.person import TIMES
from tests.e2e.crash.remains import Remains
from tests.e2e.crash.stranger import NAME

TOLD = re.compile(r"Rule (\d+) is understood")
ADD = "/rules add "
COUNTED = "pay"


def permissions_are_used_once_for_each_call(it: Remains) -> Iterator[str]:
    """A bounded one is for so many calls and no more, whichever of them were cut off; a call uses it up by one (A15, K7)."""
    uses = Counter(row["grant_id"] for row in it.uses)
    for row in it.grants:
        if int(row["uses"]) + int(row["uses_left"]) != TIMES or int(row["uses"]) != uses[row["id"]]:
            yield f"permission {row['id']}: {row['uses']} used, {row['uses_left']} left, used by {uses[row['id']]}"
    used = Counter(row["call"] for row in it.uses)
    judged = {
        f"{turn}/{one.call_id}": one
        for turn in it.turns
        for one in it.of(turn, CallJudged)
        if one.tool == COUNTED
    }
    unasked = {name for name, one in judged.items() if one.decision is Decision.ALLOW}
    if unasked != set(used) or any(n > 1 for n in used.values()):
        yield f"calls {sorted(unasked)} were not asked about, permissions were used by {dict(used)}"


def effects_are_allowed(it: Remains) -> Iterator[str]:
    """Each was allowed by a person, or by one use of a permission; never by both, and no more of them than it is for (A15)."""
    used = {row["call"] for row in it.uses}
    paid = [line for line in it.outside.effects.lines() if line["tool"] == COUNTED]
    for line in paid:
        by_person = any(
            one.answer in APPROVALS
            for one in it.of(line["turn"], ApprovalAnswered)
            if one.call_id == line["call"]
        )
        if by_person == (f"{line['turn']}/{line['call']}" in used):
            yield f"{line['text']} happened, {'allowed twice' if by_person else 'allowed by nobody'}"
    unasked = sum(f"{line['turn']}/{line['call']}" in used for line in paid)
    if unasked > TIMES * len(it.grants):
        yield f"{unasked} effects were not asked about, {len(it.grants)} permissions are for {TIMES} each"


def events_are_handled_once(it: Remains) -> Iterator[str]:
    """Whenever and however often it is sent: one session, one turn, one answer to its sender (A16)."""
    due = {
        one.client: notify
        for notify, messages in it.plan.items()
        for one in messages
        if one.stranger
    }
    rows = [row for row in it.inbox if row["channel"] == "event"]
    if Counter(row["external_id"] for row in rows) != Counter(f"key/{client}" for client in due):
        yield f"sent were the events {sorted(due)}, the inbox has {[row['external_id'] for row in rows]}"
        return
    sessions = Counter(turn.session for turn in it.turns.values())
    for row in rows:
        client = row["external_id"].removeprefix("key/")
        told = {
            (line["session"], line["turn"])
            for line in it.outside.strangers.lines()
            if line["client"] == client
        }
        if told != {(row["session"], row["turn"])} or sessions[row["session"]] != 1:
            yield f"event {client}: its sender was told {told}, it became {row['turn']}, with {sessions[row['session']]} turns"
        yield from _answered(it, row["turn"], due[client])


def _answered(it: Remains, turn: str, notify: str) -> Iterator[str]:
    """What came of it is told to the people of the house, once, and to nobody else."""
    reply = f"[event {NAME}] {it.turns[turn].reply}"
    posted = [row for row in it.outbox if row["turn"] == turn]
    told = [(row["session"], row["part"]) for row in posted if row["body"] == reply]
    if len(told) != 1 or any(row["session"] != notify or row["kind"] == "reply" for row in posted):
        yield f"event {turn}, to be told to {notify}, was answered with {posted}"
    seen = [
        line for line in it.outside.shown.lines() if line["turn"] == turn and line["body"] == reply
    ]
    shown = {(line["session"], line["part"]) for line in seen}
    if shown != set(told):
        yield f"what came of event {turn} was shown as {shown}, posted as {told}"


def events_do_nothing_unasked(it: Remains) -> Iterator[str]:
    """What a stranger's words make happen, a person has said yes to (A13)."""
    for line in it.outside.effects.lines():
        yes = [
            one
            for one in it.of(line["turn"], ApprovalAnswered)
            if one.call_id == line["call"] and one.answer in APPROVALS
        ]
        if it.turns[line["turn"]].session.startswith("event_") and len(yes) != 1:
            yield f"event {line['turn']}: {line['text']} happened with {len(yes)} yeses"


def rules_that_were_told_are_kept(it: Remains) -> Iterator[str]:
    """Once a person was told that it holds, it stands in the journal, and what it forbids is not done (F5)."""
    kept = {str(rule.n): rule.said for rule in it.rules}
    for line in it.outside.orders.lines():
        if not line["text"].startswith(ADD):
            continue
        number = TOLD.search(line["reply"])
        sentence = kept.get(number[1]) if number else None
        if sentence != line["text"].removeprefix(ADD):
            yield f"of {line['text']!r} was told {line['reply']!r}, kept is {kept}"
        yield from _obeyed(it, line["session"], line["client"])


def _obeyed(it: Remains, session: str, client: str) -> Iterator[str]:
    said = [one.client for one in it.plan[session]]
    later = set(said[said.index(client) :])
    for turn in it.turns:
        about = {name for one in it.of(turn, UserSaid) for name in names(one.text)}
        judged = [
            one.decision for one in it.of(turn, CallJudged) if one.tool == COUNTED and about & later
        ]
        done = [
            line["text"]
            for line in it.outside.effects.lines()
            if (line["turn"], line["tool"]) == (turn, COUNTED)
        ]
        if about & later and (done or any(one is not Decision.DENY for one in judged)):
            yield f"turn {turn}: a rule forbids it, and {done} happened, judged {judged}"


OF_TRUST = (
    permissions_are_used_once_for_each_call,
    effects_are_allowed,
    events_are_handled_once,
    events_do_nothing_unasked,
    rules_that_were_told_are_kept,
)
