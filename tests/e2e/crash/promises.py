"""The promise (guarantees.md, B4), held against what really happened. Each check names what did not hold."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from daemon.core.errors import Fenced
from daemon.core.events import (
    Answer,
    ApprovalAnswered,
    ApprovalAsked,
    Consulting,
    ModelAsked,
    ModelReplied,
    Outcome,
    Steered,
    Stop,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UserSaid,
)
from daemon.core.rows import REVIEW_QUESTION as LOOP_REVIEW
from daemon.core.trust import Effect
from daemon.store.journal import Tx
from daemon.store.sqlite import SqliteStore
from tests.e2e.crash.hands import NOTED
from tests.e2e.crash.model import is_summary, markers, names
from tests.e2e.crash.promises_daemon import OF_HOUSE
from tests.e2e.crash.promises_kin import KIN
from tests.e2e.crash.promises_loops import OF_LOOPS
from tests.e2e.crash.promises_tools import OF_TOOLS
from tests.e2e.crash.promises_trust import OF_TRUST
from tests.e2e.crash.remains import Remains, Row

TRIES = 3
OVER = ("ended", "quarantined")
UNSHOWN = ("approval", "command")
Check = Callable[[Remains], Iterator[str]]


def messages_have_one_outcome(it: Remains) -> Iterator[str]:
    """Promise 1: every message that was taken is answered, folded in, taken as an answer, or set aside; once."""
    rows = {row["external_id"]: row for row in it.said}
    plain = [
        (session, one)
        for session, messages in it.plan.items()
        for one in messages
        if not (one.command or one.stranger)
    ]
    said = {f"{session}/{one.client}" for session, one in plain}
    if len(rows) != len(it.said) or set(rows) != said:
        yield f"the inbox has {sorted(row['external_id'] for row in it.said)}, said was {sorted(said)}"
    for line in it.outside.accepted.lines():
        row = rows.get(f"{line['session']}/{line['client']}")
        if row is None or row["body"] != line["text"] or not _as_promised(it, row, line["turn"]):
            yield f"accepted was {line}, the inbox has {row}"
    for row in it.inbox:
        yield from _outcome(it, row)


def _as_promised(it: Remains, row: Row, turn: str) -> bool:
    """It went into the turn that was named; or that turn ended before it could, and it became one of its own."""
    return turn in (row["turn"], row["state"].partition(":")[2]) or (
        turn in it.turns and row["turn"] in it.turns
    )


def _outcome(it: Remains, row: Row) -> Iterator[str]:
    state, _, other = row["state"].partition(":")
    begun = [
        turn for turn in it.turns if any(one.input_id == row["id"] for one in it.of(turn, UserSaid))
    ]
    folded = [
        turn for turn in it.turns for one in it.of(turn, Steered) if one.input_id == row["id"]
    ]
    match state:
        case "done":
            ok = begun == [row["turn"]] and not folded and it.turns[row["turn"]].state == "ended"
        case "steered":
            ok = folded == [other] and not begun
        case "answered":
            ok = other in it.turns and not begun and not folded
        case "quarantined":
            notices = [
                one for one in it.outbox if one["turn"] == row["turn"] and one["kind"] == "notice"
            ]
            ok = bool(notices) and not folded and _fruitless(it, row["turn"]) > TRIES
        case "command":
            ok = not begun and not folded
        case _:
            ok = False
    if not ok:
        yield f"message {row['body']}: state {row['state']}, began {begun}, folded into {folded}"


def _fruitless(it: Remains, turn: str) -> int:
    """How many workers took the turn up where it was taken up last, the one that set it aside included."""
    lines = [line for line in it.outside.attempts.lines() if line["turn"] == turn]
    return len({line["pid"] for line in lines if line["progress"] == lines[-1]["progress"]})


def every_message_was_heard(it: Remains) -> Iterator[str]:
    """Promise 1: the reply to a message is about it, and whoever began last is not answered first."""
    for turn in it.turns.values():
        if turn.state != "ended":
            yield f"turn {turn.id} is {turn.state}" if turn.state not in OVER else ""
            continue
        texts = [one.text for kind in (UserSaid, Steered) for one in it.of(turn.id, kind)]
        replies = " ".join((turn.reply, *(one.text for one in it.of(turn.id, ModelReplied))))
        stopped = turn.stop_reason is Stop.CANCELLED
        unheard = [name for text in texts for name in names(text) if name not in replies]
        yield f"{unheard} are not in {replies!r}" if unheard and not stopped else ""
    for session in {row["session"] for row in it.inbox}:
        ids = [row["id"] for row in it.inbox if row["session"] == session]
        began = [turn.input_id for turn in it.turns.values() if turn.session == session]
        if began != [one for one in ids if one in began]:
            yield f"{session}: turns began out of order"


def events_are_whole(it: Remains) -> Iterator[str]:
    """Numbers without a gap, one end, one result for each call; ids are used once."""
    inputs = Counter(row["turn"] for row in it.inbox)
    yield from (f"turn id {turn} was given {n} times" for turn, n in inputs.items() if n > 1)
    for turn, events in it.events.items():
        if [one.seq for one in events] != list(range(1, len(events) + 1)):
            yield f"turn {turn}: events {[one.seq for one in events]}"
        ends = len(it.of(turn, TurnEnded))
        if ends != (it.turns[turn].state == "ended"):
            yield f"turn {turn} is {it.turns[turn].state} and ended {ends} times"
        results = Counter(one.call_id for one in it.of(turn, ToolFinished))
        asked = {
            f"{one.seq}.{n}"
            for one in events
            if isinstance(one.event, ModelReplied)
            for n in range(len(one.event.calls))
        }
        if ends and (set(results) != asked or any(n > 1 for n in results.values())):
            yield f"turn {turn}: calls {sorted(asked)}, results {dict(results)}"


def effects_happen_at_most_once(it: Remains) -> Iterator[str]:
    """Promise 3; K6 to #9."""
    done = Counter((line["turn"], line["call"]) for line in it.outside.effects.lines())
    texts = Counter(line["text"] for line in it.outside.effects.lines())
    yield from (f"the effect {text} happened {n} times" for text, n in texts.items() if n > 1)
    for (turn, call), n in done.items():
        started = [one for one in it.of(turn, ToolStarted) if one.call_id == call]
        if n > 1 or len(started) != 1:
            yield f"effect {turn} {call}: {n} times, with {len(started)} starts"
    for turn in it.turns:
        for result in it.of(turn, ToolFinished):
            n = done[(turn, result.call_id)]
            if result.tool in NOTED and n not in COUNTS[result.outcome]:
                yield f"effect {turn} {result.call_id}: outcome {result.outcome}, happened {n} times"


COUNTS = {
    Outcome.OK: (1,),
    Outcome.UNKNOWN: (0, 1),
    Outcome.NOT_RUN: (0,),
    Outcome.REJECTED: (0,),
    Outcome.ERROR: (),
}


def unknown_outcomes_are_told(it: Remains) -> Iterator[str]:
    """Promise 3: to the model in its next request, to the user in the run's notices."""
    for turn in it.turns:
        finished = {one.call_id for one in it.of(turn, ToolFinished)}
        cut = [
            one
            for one in it.of(turn, ToolStarted)
            if one.effect is not Effect.READ and one.call_id not in finished
        ]
        if any(one.tool not in str(it.view(turn).notices) for one in cut):
            yield f"turn {turn}: its owner was not told of what was cut off: {cut}"
        for result in it.of(turn, ToolFinished):
            if result.outcome is not Outcome.UNKNOWN:
                continue
            if not any(
                f"outcome of {result.tool} is unknown" in notice for notice in it.view(turn).notices
            ):
                yield f"turn {turn}: its owner was not told that the outcome of {result.tool} is unknown"
            about = {
                name
                for kind in (UserSaid, Steered)
                for one in it.of(turn, kind)
                for name in names(one.text)
            }
            told = [
                one
                for one in it.requests
                if about.intersection(markers(one)) and result.text in str(one["messages"])
            ]
            if not told and it.turns[turn].stop_reason is not Stop.CANCELLED:
                yield f"turn {turn}: the model was not told that the outcome of {result.tool} is unknown"


def model_calls_are_written_down_first(it: Remains) -> Iterator[str]:
    """Promise 2; K5 #6: no request without its ModelAsked, no question repeated whose answer is in the journal."""
    for turn in it.turns:
        about = {
            name
            for kind in (UserSaid, Steered)
            for one in it.of(turn, kind)
            for name in names(one.text)
        }
        requests = [one for one in it.requests if about.intersection(markers(one))]
        asked, replied = len(it.of(turn, ModelAsked)), len(it.of(turn, ModelReplied))
        cuts = it.kills + (it.turns[turn].stop_reason is Stop.CANCELLED)
        if it.of(turn, UserSaid)[0].terms.composite:
            continue  # asks nobody itself
        if not 0 <= asked - len(requests) <= cuts:
            yield f"turn {turn}: {len(requests)} requests, {asked} written down, with {cuts} cuts"
        if asked - replied > cuts:
            yield f"turn {turn}: asked {asked} times for {replied} replies, with {cuts} cuts"
    summed, consulted = (
        sum(is_summary(one.body) for one in it.requests),
        sum(len(it.of(turn, Consulting)) for turn in it.turns),
    )
    if not 0 <= consulted - summed <= it.kills:
        yield f"{summed} requests for a summary, {consulted} written down"


def approvals_survive(it: Remains) -> Iterator[str]:
    """K15 #16: a question that was seen stays the same question; an answer that was taken is never lost."""
    rows = {(row["turn"], row["call_id"]): row for row in it.approvals}
    for line in it.outside.questions.lines():
        turn, call = line["turn"], line["call"]
        if call == LOOP_REVIEW:
            continue  # put when its turn had ended: see promises_loops
        asked = [one for one in it.of(turn, ApprovalAsked) if one.call_id == call]
        answered = [one.answer for one in it.of(turn, ApprovalAnswered) if one.call_id == call]
        if len(asked) != 1 or (turn, call) not in rows:
            yield f"question {turn} {call} was asked {len(asked)} times"
        if (
            line["what"] == "answered"
            and it.turns[turn].state == "ended"
            and answered != [Answer(line["answer"])]
        ):
            yield f"the answer to {turn} {call} was taken, and became {answered}"
    yield from (
        f"question {key} is still {row['state']}"
        for key, row in rows.items()
        if row["state"] in ("pending", "answered")
    )


def replies_are_shown_in_order(it: Remains) -> Iterator[str]:
    """Promise 4; K11 #12 #13: at least once, in order, and twice only for a kill between showing and marking."""
    shown = it.outside.shown.lines()
    firsts = list(dict.fromkeys((line["turn"], line["part"]) for line in shown))
    for session in {row["session"] for row in it.outbox}:
        due = [
            (row["turn"], row["part"])
            for row in it.outbox
            if row["session"] == session and row["kind"] not in UNSHOWN
        ]
        seen = [one for one in firsts if one in due]
        if seen != due:
            yield f"{session}: shown was {seen}, due was {due}"
    if len(shown) - len(firsts) > it.kills:
        yield f"{len(shown)} shown, {len(firsts)} different ones, {it.kills} kills"
    bodies = {row["turn"]: row["body"] for row in it.outbox if row["kind"] == "reply"}
    for turn in it.turns.values():
        if (
            it.own(turn.id)
            and turn.state == "ended"
            and not _is_delivered(bodies.get(turn.id, ""), turn.reply)
        ):
            yield f"turn {turn.id}: reply {turn.reply!r}, delivered {bodies.get(turn.id)!r}"
    yield from (
        f"delivery {row['turn']} is {row['state']}" for row in it.outbox if row["state"] != "sent"
    )


def no_fenced_write_was_accepted(it: Remains) -> Iterator[str]:
    """K19: each life has an epoch of its own in each session, and the journal took them in order."""
    lines = it.outside.writes.lines()
    for session in {line["session"] for line in lines}:
        mine = [(int(line["epoch"]), line["pid"]) for line in lines if line["session"] == session]
        owners = {(epoch, pid) for epoch, pid in mine}
        if len(owners) != len({epoch for epoch, _ in owners}) or any(
            a[0] > b[0] for a, b in pairwise(mine)
        ):
            yield f"{session}: written by {mine}"


CHECKS: tuple[Check, ...] = (
    messages_have_one_outcome,
    every_message_was_heard,
    events_are_whole,
    effects_happen_at_most_once,
    unknown_outcomes_are_told,
    model_calls_are_written_down_first,
    approvals_survive,
    replies_are_shown_in_order,
    no_fenced_write_was_accepted,
)


def broken(it: Remains) -> list[str]:
    """Every promise that did not hold; nothing when all is well."""
    return [
        fault
        for check in (*CHECKS, *KIN, *OF_HOUSE, *OF_LOOPS, *OF_TRUST, *OF_TOOLS)
        for fault in check(it)
        if fault
    ]


async def stale_owners_are_refused(it: Remains) -> list[str]:
    """K19: a worker of a former life that is still there somewhere writes nothing."""
    store = await SqliteStore.open(it.outside.folder / "home" / "journal.db")
    try:
        return [
            fault
            for lane in it.lanes
            if (fault := await _refused(store, it, lane["session"], int(lane["epoch"])))
        ]
    finally:
        await store.aclose()


async def _refused(store: SqliteStore, it: Remains, session: str, epoch: int) -> str:
    turn = next((one for one in it.turns.values() if one.session == session), None)
    if turn is None:
        return ""
    late = it.events[turn.id][-1]

    def work(tx: Tx) -> None:
        tx.append_events(session, epoch - 1, turn.id, [late])

    try:
        await store.write(work)
    except Fenced:
        return ""
    return f"{session}: a write of epoch {epoch - 1} was accepted in epoch {epoch}"


def _is_delivered(body: str, reply: str) -> bool:
    """As it is, with what the turn changed behind it."""
    return bool(reply) and (body == reply or body.startswith(f"{reply}\n\nChanged: "))
