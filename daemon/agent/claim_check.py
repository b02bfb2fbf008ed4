"""A reply that says something was done, held against what the turn's tools really did, before the user sees it (F6, E10).

Only plain reports of the assistant's own work count; where a sentence can be read in another way it is left alone.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from daemon.agent.claims.english import ENGLISH
from daemon.agent.claims.own_words import own_words
from daemon.agent.claims.proof import proves
from daemon.agent.claims.tongues import FRENCH, GERMAN, SPANISH
from daemon.agent.claims.words import Kind, Row, Shape, Tongue
from daemon.core import value
from daemon.core.events import ToolFinished
from daemon.core.messages import ToolCall
from daemon.core.trust import Effect

TONGUES = (ENGLISH, GERMAN, FRENCH, SPANISH)
NO_NEWS = frozenset(("current_time", "find_tools", "request_more_iterations", "todo"))
SHORT_REPLY = 400
MOST_WORDS, LONGEST_SENTENCE = 160, 500
SENTENCE = re.compile(r"[^\n]+?(?:[.!?…]+[\"')\]]*(?=\s|$)|\n|$)")
SHOWN = re.compile(
    r"```|~~~|\bhere(?:['’]s| is| are) (?:the|your|an?|my) (?:updated|new|revised|current|full|final|corrected|improved|code"
    r"|script|file|text|version|list)\b",
    re.IGNORECASE,
)
SPEAKER = re.compile(
    r"[\W\d]*(?!(?:Done|Ok|Okay|Update|Note|Status|Results?|Summary|Great|Sure|Success|Yes|Finished|All|Good|Erledigt|Fertig|Fait"
    r"|Listo|Hecho)\b)[A-Z][\w.-]*(?: [A-Z][\w.-]*)?(?: \([^)]*\))?:\s"
)
LISTED = re.compile(r"\s*(?:[-*•+]|\d{1,2}[.)])\s")
CLAUSE_END = re.compile(r"[,;:!—–]|\bbut\b|\baber\b|\bmais\b|\bpero\b")


@value
class Claim:
    """The reply says so, in these words, and no result of the turn shows it."""

    kind: Kind
    words: str


@value
class _Candidate:
    """A claim as it is found, and what makes it too uncertain to count: reading, length, a text that the reply shows."""

    kind: Kind
    words: str
    if_read: bool
    if_long: bool
    if_shown: bool


def find_false_claims(
    reply: str, past: Sequence[tuple[ToolFinished, ToolCall]]
) -> tuple[Claim, ...]:
    """What the reply says was done in this turn though no result shows it; one of each kind, in the order they are said."""
    said_here, shown, long = _looked(reply)
    if not said_here:
        return ()
    read = any(_tells(result) for result, _ in past)
    found: dict[Kind, Claim] = {}
    for said in said_here:
        doubtful = (said.if_read and read) or (said.if_shown and shown) or (said.if_long and long)
        if (
            said.kind not in found
            and not doubtful
            and not any(proves(said.kind, result, call) for result, call in past)
        ):
            found[said.kind] = Claim(said.kind, said.words[:MOST_WORDS])
    return tuple(found.values())


def render_correction(claims: Sequence[Claim]) -> str:
    """What the model is told: which words nothing bears out, and the two ways to put that right."""
    lines = "\n".join(
        f'- "{claim.words}": no tool result of this turn shows that {claim.kind.value}.'
        for claim in claims
    )
    return (
        f"Your reply says that something was done, and the record of this turn does not bear it out:\n{lines}\n"
        "Either do it now with a tool, or answer again and say plainly that it is not done. "
        "If it was done in an earlier turn, say so."
    )


def render_note(claims: Sequence[Claim]) -> str:
    """What the user reads below a reply that insists."""
    return f"(Note: no tool result of this turn shows that {' or that '.join(claim.kind.value for claim in claims)}.)"


def _tells(result: ToolFinished) -> bool:
    """There may be news of others' doings in it."""
    looked = result.outcome.value == "ok" and result.effect in (Effect.READ, Effect.FETCH)
    return looked and result.tool not in NO_NEWS


@lru_cache(maxsize=64)
def _looked(reply: str) -> tuple[tuple[_Candidate, ...], bool, bool]:
    """What is said in it, whether it shows a text, whether it is long. It is looked at when it comes and when it is delivered."""
    text = own_words(reply)
    return tuple(_said(text)), SHOWN.search(reply) is not None, len(text) > SHORT_REPLY


def _said(text: str) -> Iterator[_Candidate]:
    marked = tuple(tongue for tongue in TONGUES if re.search(tongue.marked, text, re.IGNORECASE))
    for part in SENTENCE.finditer(text):
        sentence = " ".join(part.group().split())[:LONGEST_SENTENCE]
        listed = LISTED.match(text, text.rfind("\n", 0, part.start()) + 1) is not None
        for tongue, verbs in zip(TONGUES, VERBS, strict=True):
            if re.search(verbs, sentence, re.IGNORECASE):
                yield from _in_sentence(
                    sentence, tongue, marked=tongue in marked, news=listed and tongue not in marked
                )


def _in_sentence(
    sentence: str, tongue: Tongue, *, marked: bool, news: bool
) -> Iterator[_Candidate]:
    if SPEAKER.match(sentence) or re.search(tongue.innocent, sentence, re.IGNORECASE):
        return
    told = re.search(tongue.told, sentence, re.IGNORECASE) is not None
    own = marked or re.search(tongue.own, sentence, re.IGNORECASE) is not None
    for shape in tongue.shapes:
        if (told and shape.report) or (news and (shape.report or shape.bare)):
            continue
        for row in _rows(sentence, shape, tongue):
            yield _Candidate(
                row.kind,
                sentence,
                if_read=shape.weak or (shape.report and not own),
                if_long=shape.weak,
                if_shown=row.shown,
            )


def _rows(sentence: str, shape: Shape, tongue: Tongue) -> Iterator[Row]:
    rows = tongue.bases if "<DO>" in shape.pattern else tongue.rows
    pattern = shape.pattern.replace("<V>", _any(tongue.rows)).replace("<DO>", _any(tongue.bases))
    for match in re.finditer(pattern, sentence, re.IGNORECASE):
        head, tail = sentence[: match.start()], sentence[match.end("v") :]
        if _stands(head, tail, shape, tongue) and (row := _row(rows, match["v"], sentence, tail)):
            yield row


def _stands(head: str, tail: str, shape: Shape, tongue: Tongue) -> bool:
    if re.search(tongue.denied, CLAUSE_END.split(head)[-1], re.IGNORECASE):
        return False
    return bool(re.fullmatch(shape.head, head, re.IGNORECASE)) and bool(
        re.match(shape.tail, tail, re.IGNORECASE)
    )


def _row(rows: Iterable[Row], verb: str, sentence: str, tail: str) -> Row | None:
    for row in rows:
        if not re.fullmatch(row.verbs, verb, re.IGNORECASE):
            continue
        barred = row.barred and re.search(row.barred, tail, re.IGNORECASE)
        if not barred and re.search(row.needs, sentence, re.IGNORECASE):
            return row
    return None


def _any(rows: Iterable[Row]) -> str:
    return "(?:" + "|".join(row.verbs for row in rows) + ")"


VERBS = tuple(_any(tongue.rows + tongue.bases) for tongue in TONGUES)
"""Without one of these there is nothing to look at."""
