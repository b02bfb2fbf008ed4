"""The tools remember, recall and forget. What a turn that has read text from outside wants to
remember is kept aside until the owner says yes; what the owner told it to remember, word for word,
is theirs.
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from daemon.core import value
from daemon.core.clock import show_day
from daemon.core.provenance import find_taint, is_owners_text, list_typed
from daemon.core.trust import OWNER_NAME, Effect, Label, join_all
from daemon.core.turn import Turn
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.signature import tool
from memory.conversations import Conversations
from memory.facts import ACTIVE, Ended, Fact, FactSource, MemoryFull, normalize
from memory.memory import Memory
from memory.search import Found, Scope

MAX_HITS, MAX_LINE, MAX_SHOWN, SHOWN_FORMER, MAX_PLACES = 8, 2000, 1000, 3, 20
ROLES = {OWNER_NAME: "the user", "assistant": "your answer", "quoted": "text that was pasted"}
KEPT_ASIDE = (
    "kept aside, not remembered: this conversation has read text from outside. Nothing uses it"
    " before the owner says yes: it waits for /memory pending. Tell them so."
)
REJECTED_BEFORE = "not kept: the owner has said no to exactly this before"
NOT_HERE = (
    "what was remembered is the owner's, and it is read only where nobody else reads along: in"
    " their own chats. Say so; it is unknown here whether there is anything."
)
DAYS = (("%Y-%m-%d", 1), ("%Y-%m", 32), ("%Y", 366))  # and how far the next one's first is at most
FROM_OUTSIDE = "it came from outside"

ORDER = re.compile(
    r"(?:remember|note|memori[sz]e|keep in mind|(?:don['’]t|do not) forget"
    r"|merke? dir(?: bitte)?|denk daran|vergiss nicht|retiens|note|souviens-toi|n['’]oublie pas"
    r"|recuerda|anota|no olvides|ricorda(?:ti)?|annota|lembra-te|lembre(?:-se)?|anote"
    r"|onthoud|vergeet niet|zapamiętaj)"
    r"(?P<what>,? (?:that|this|it|the following|dass|das|dies|que|qu['’]|ça|cela|esto|eso|che"
    r"|questo|isso|isto|dat|dit|że|to))?[:,]?",
    re.IGNORECASE,
)
LEADS_ON = re.compile(
    r"(?:^|\b(?:please|and|then|also|you|bitte|und|auch|et|y|e|en|i|proszę|por favor|per favore"
    r"|s['’]il te plaît|alstublieft))[\s,]*$",
    re.IGNORECASE,
)
REPORTS = re.compile(
    r"[\"“”„«»`‘’':?]|\b(?:not|never|if|whether|says?|said|tells?|told|wants?|asks?|asked|claims?"
    r"|nicht|nie|sagt|schreibt|will|ob|pas|jamais|dit|si|no|nunca|dice|non|mai|não|diz|niet|nooit"
    r"|zegt|nigdy|mówi)\b",
    re.IGNORECASE,
)
ADDRESS = re.compile(r"\b(?:https?://|www\.)\S+")
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")
ABBREVIATED = re.compile(
    r"\b(?:dr|mr|mrs|ms|st|prof|no|nr|inc|vs|ca|approx|e\.g|i\.e|z\.b)$", re.IGNORECASE
)


def is_ordered(said: str, fact: str) -> bool:
    """The words tell us to remember exactly this: "remember that FACT.", or "FACT. Remember that."
    in one line. A part of a sentence does not count, for what was left out may have turned it
    round; nor does a question, or what somebody else is reported to say.
    """
    words = r"\s+".join(map(re.escape, fact.rstrip(" .!").split()))
    if not words:
        return False
    for line in filter(lambda line: len(line) <= MAX_LINE, said.splitlines()):
        places = re.finditer(rf"(?<!\w){words}(?!\w)", line, re.IGNORECASE)
        for found in islice(places, MAX_PLACES):
            before, after = line[: found.start()], line[found.end() :]
            if not re.match(r"[.!]*\s*$|[.!]+\s", after):
                continue
            if after.strip(" .!") and ABBREVIATED.search(found[0]):
                continue
            if _is_introduced(SENTENCE_END.split(before)[-1]) or (
                not SENTENCE_END.split(before)[-1].strip() and _is_confirmed(after)
            ):
                return True
    return False


def _is_introduced(before: str) -> bool:
    """The sentence has said "remember that" so far, and is nobody else's."""
    order = next((one for one in ORDER.finditer(before) if not before[one.end() :].strip()), None)
    if order is None:
        return False
    lead = ADDRESS.sub("", before[: order.start()])
    return bool(LEADS_ON.search(lead)) and not REPORTS.search(lead)


def _is_confirmed(after: str) -> bool:
    """The next sentence is "Please remember that."."""
    sentences = SENTENCE_END.split(after.lstrip(".! "))
    order = ORDER.search(sentences[0])
    if order is None or not order["what"] or sentences[0][order.end() :].strip(" .!"):
        return False
    lead = sentences[0][: order.start()]
    return bool(LEADS_ON.search(lead)) and not REPORTS.search(lead)


def is_owner_order(turn: Turn, fact: str) -> bool:
    """The owner themselves typed in this turn that this is to be remembered."""
    return any(is_ordered(said, fact) for said in list_typed(turn))


def describe_source(turn: Turn, label: Label, category: str = "", key: str = "") -> FactSource:
    """Where what is kept now comes from, and what it tells of whom."""
    taint = find_taint(turn.events) if label is Label.UNTRUSTED else None
    why = "" if label is Label.TRUSTED else taint.by if taint else FROM_OUTSIDE
    return FactSource(turn.id, turn.session, why, category, key)


def describe_fact(fact: Fact) -> str:
    """With its date; what held before it is told as what it is (A18)."""
    former = "; ".join(
        f"no longer, since {show_day(one.until)}: {one.text}"
        for one in fact.former[:SHOWN_FORMER]
        if one.until
    )
    return f"{fact.text} ({show_day(fact.at)}{'; ' * bool(former)}{former})"


@tool(effect=Effect.WRITE, idempotent=True, critical=(), public=True)
async def remember(memories: Memory, context: ToolContext, fact: str, key: str = "") -> str:
    """Keep a fact for later. key: whose.what (user.city)."""
    fact, turn = fact.strip(), context.turn
    if not fact:
        raise ToolError("fact is empty; say what to remember")
    is_strange = context.untrusted_source or not turn.is_owners
    ordered = is_strange and is_owner_order(turn, fact)
    label = Label.UNTRUSTED if is_strange and not ordered else Label.TRUSTED
    try:
        kept = await memories.remember(
            fact,
            at=context.clock.now(),
            source=f"{context.session_id} {turn.id}",
            label=label.value,
            owned=ordered or (turn.is_owners and is_owners_text(turn, fact)),
            where=describe_source(turn, label, key=key),
        )
    except MemoryFull as error:
        raise ToolError(f"not kept: {error}") from error
    if label is Label.TRUSTED:
        return "remembered"
    states = {known.state for known in await memories.find(kept)}
    return "remembered" if ACTIVE in states else KEPT_ASIDE if states else REJECTED_BEFORE


@value
class OwnersMemory:
    """The owner's memories. `is_own`: nobody but the owner reads this session."""

    memory: Memory
    conversations: Conversations
    is_own: Callable[[str], Awaitable[bool]]


@tool(effect=Effect.READ, parallel=True, evidence="known", public=True)  # where others read
async def recall(
    memories: OwnersMemory, context: ToolContext, query: str, since: str = "", until: str = ""
) -> ToolOutput:
    """Search memory, old chats."""
    return await _recall(memories, context, query, _read_scope(since, until))


@tool(effect=Effect.READ, parallel=True, evidence="known", public=True)
async def recall_others(
    memories: OwnersMemory,
    context: ToolContext,
    query: str,
    person: str = "",
    since: str = "",
    until: str = "",
) -> ToolOutput:
    """Search what other people wrote before: in mails, groups and events, and what was pasted.
    person: who wrote it; since, until: days such as 2026-03-05, months, years.
    """
    scope = replace(_read_scope(since, until), own=False, speaker=person)
    return await _recall(memories, context, query, scope)


def _read_scope(since: str, until: str) -> Scope:
    """From the beginning of one day, month or year to the end of another; in the user's zone."""
    return Scope(since=_read_day("since", since)[0], until=_read_day("until", until)[1])


def _read_day(name: str, text: str) -> tuple[datetime | None, datetime | None]:
    """Its beginning, and its end."""
    if not text.strip():
        return None, None
    for form, days in DAYS:
        with suppress(ValueError, OverflowError):
            begin = datetime.strptime(text.strip()[:10], form).astimezone()
            end = begin.replace(tzinfo=None) + timedelta(days=days)
            return begin, (end if days == 1 else end.replace(day=1)).astimezone()
    raise ToolError(f"{name} is no day such as 2026-03-05, no month such as 2026-03, no year")


async def _recall(
    memories: OwnersMemory, context: ToolContext, query: str, scope: Scope
) -> ToolOutput:
    if not query.strip():
        raise ToolError("query is empty; say what to look for")
    if not (context.turn.is_owners and await memories.is_own(context.session_id)):
        return ToolOutput(NOT_HERE)
    count = 0 if scope.speaker else MAX_HITS
    facts = await memories.memory.recall(query, count, since=scope.since, until=scope.until)
    said = await memories.conversations.search(query, scope, MAX_HITS)
    said = [one for one in said if not one.key.startswith(f"{context.turn.id}:")]
    ended = await memories.memory.find_ended([one.text for one in said])
    lines = [
        *(f"- {describe_fact(fact)}" for fact in facts),
        *(f"- {describe_found(one, MAX_SHOWN, ended.get(one.text))}" for one in said),
    ]
    return ToolOutput(
        "\n".join(lines) or "nothing in memory fits that",
        label=join_all(Label(one.label) for one in (*facts, *said)),
        from_owner=all(fact.is_owners for fact in facts) and all(map(is_owners, said)),
        public=False,
    )


@tool(effect=Effect.DESTRUCTIVE, critical=("fact",), owner_only=True)
async def forget(memories: OwnersMemory, context: ToolContext, fact: str) -> ToolOutput:
    """Remove one remembered fact for good. fact: its words, as recall shows them."""
    if not (context.turn.is_owners and await memories.is_own(context.session_id)):
        return ToolOutput(NOT_HERE)
    found = await memories.memory.matching(fact, MAX_HITS)
    same = [one for one in found if normalize(one.text) == normalize(fact)] or found
    if not same:
        raise ToolError("nothing was forgotten: no remembered fact has all these words")
    if len(same) > 1:
        lines = "\n".join(f"- {one.text}" for one in same)
        text = f"nothing was forgotten: several fit. Say which, word for word:\n{lines}"
        return ToolOutput(text, public=False)
    await memories.memory.forget(same[0].id, context.turn.id)
    return ToolOutput(f"forgotten: {same[0].text}", public=False)


def is_owners(said: Found) -> bool:
    """The owner's own words."""
    return said.role == OWNER_NAME


def describe_found(one: Found, chars: int, ended: Ended | None = None) -> str:
    """On one line: when, where and by whom it was said, and the words; what of them no longer
    holds.
    """
    words, session = " ".join(one.text.split()), " ".join(one.session.split())
    words = words if len(words) <= chars else f"{words[: max(chars - 2, 0)]} …"
    name = " ".join(one.speaker.split())
    who = ROLES.get(one.role) or (
        f"another person ({name})" if name else "imported, by nobody named"
    )
    mark = "" if one.label == Label.TRUSTED.value else ", from outside"
    told = f": {ended.text}" if ended and ended.text != one.text else ""
    former = f" (no longer, since {show_day(ended.until)}{told})" if ended else ""
    return f"{show_day(one.at)}, {session}, {who}{mark}: {words}{former}"
