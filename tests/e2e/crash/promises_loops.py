"""What must hold of loops, however often the daemon died: no attempt twice, the log in order, the right end (C1-C6)."""

import re
from collections.abc import Iterator
from dataclasses import replace

from daemon.core.events import UserSaid
from daemon.core.rows import REVIEW_QUESTION, LoopRow, LoopStage, TurnRow
from daemon.core.trust import Answer
from daemon.loops.changes import REVIEW_REJECTED
from daemon.loops.config import attempt_message, summarize_output
from tests.e2e.crash.remains import Remains

STOPPED = "stopped by the owner"


def attempts_are_made_once(it: Remains) -> Iterator[str]:
    """One turn and one message for each, in order, and nothing that is no attempt (C1, C6)."""
    for loop in it.loops:
        turns = [turn.id for turn in it.turns.values() if turn.session == loop.session]
        messages = [row["turn"] for row in it.inbox if row["session"] == loop.session]
        due = [loop.turn_id(number) for number in range(1, loop.attempt + 1)]
        if not loop.is_over:
            yield f"loop {loop.id} is {loop.stage}"
        if (
            messages != due
            or turns != due[: len(turns)]
            or len(due) - len(turns) > (loop.error == STOPPED)
        ):
            yield f"loop {loop.id} is at attempt {loop.attempt}: turns {turns}, messages {messages}"


def the_log_is_in_order(it: Remains) -> Iterator[str]:
    """Each attempt is told what those before it learned, and nothing else; each line was told to people once (C2, C4)."""
    for loop in it.loops:
        tried = _tried(it, loop)
        learned = tuple(summarize_output(turn.reply) for turn in tried)
        if loop.learned not in (learned, learned[:-1]) or (
            loop.stage is LoopStage.COMPLETED and loop.learned != learned
        ):
            yield f"loop {loop.id} learned {loop.learned}, its attempts said {learned}"
        for number, turn in enumerate(tried, 1):
            told = it.of(turn.id, UserSaid)[0].text
            if told != attempt_message(
                replace(loop, attempt=number, learned=loop.learned[: number - 1])
            ):
                yield f"attempt {turn.id} was told {told!r}"
        bodies = [
            row["body"]
            for row in it.outbox
            if row["kind"] == "notice"
            and f"[{loop.session}]" in row["body"]
            and "I was cut off while" not in row["body"]  # an unknown outcome is told beside it
        ]
        lines = [body for body in bodies if "] Attempt" in body and "needs your review" not in body]
        due = [
            f"[{loop.session}] Attempt {n} of {loop.max_iterations}: {line}"
            for n, line in enumerate(loop.learned, 1)
        ]
        ends = [body for body in bodies if "] Completed after" in body or "] Failed at" in body]
        if lines != due or len(ends) != 1 or ends != bodies[-1:]:
            yield f"loop {loop.id}: told were {bodies}"


def loops_end_as_they_should(it: Remains) -> Iterator[str]:
    """When the criterion holds, at the last attempt, when a person says so, and not before (C3, C5)."""
    for loop in it.loops:
        tried = _tried(it, loop)
        if loop.stage is LoopStage.FAILED:
            yield (
                ""
                if loop.error in (STOPPED, REVIEW_REJECTED)
                else f"loop {loop.id} failed: {loop.error}"
            )
        elif tried:
            yield from _completed(loop, [turn.reply for turn in tried])
        yield from _reviews(it, loop)


def _completed(loop: LoopRow, said: list[str]) -> Iterator[str]:
    met = [
        bool(loop.criterion == "regex" and re.search(loop.value, text, re.IGNORECASE))
        for text in said
    ]
    full = met[-1] or loop.criterion == "manual"
    if loop.final_output != (said[-1] if full else loop.learned[-1]):
        yield f"loop {loop.id} ended with {loop.final_output!r}, its attempts said {said}"
    if any(met[:-1]) or not (full or len(said) == loop.max_iterations):
        yield f"loop {loop.id} ended after {len(said)} of {loop.max_iterations} attempts, met {met}"


def _reviews(it: Remains, loop: LoopRow) -> Iterator[str]:
    asked = [
        row
        for row in it.approvals
        if row["call_id"] == REVIEW_QUESTION and row["session"] == loop.session
    ]
    want = Answer.ONCE if loop.stage is LoopStage.COMPLETED else Answer.DENY
    due = (
        [(loop.turn_id(loop.attempt), "consumed", want.value)]
        if loop.criterion == "manual" and loop.error != STOPPED
        else None
    )
    if due is not None and [(row["turn"], row["state"], row["answer"]) for row in asked] != due:
        yield f"loop {loop.id} is {loop.stage}, its reviews are {asked}"
    taken = [
        line
        for line in it.outside.questions.lines()
        if line["call"] == REVIEW_QUESTION and line["what"] == "answered"
    ]
    yield from (
        f"the review {line} is lost"
        for line in taken
        if [row["answer"] for row in asked] != [line["answer"]]
    )


def _tried(it: Remains, loop: LoopRow) -> list[TurnRow]:
    return [turn for turn in it.turns.values() if turn.session == loop.session]


OF_LOOPS = (attempts_are_made_once, the_log_is_in_order, loops_end_as_they_should)
