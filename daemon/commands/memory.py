"""/memory /forget: what is remembered, what waits for the owner's yes, what is to be gone."""

import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b

from daemon.commands.registry import CommandCall
from daemon.core import value
from daemon.core.clock import Clock, show_day
from daemon.core.errors import UsageError
from daemon.core.trust import Label
from daemon.recall.consolidation import Consolidator
from daemon.recall.endpoint import EndpointConsent
from daemon.recall.forgetting import LEAST_NAME, Forgetter, is_name
from daemon.services.approvals import make_visible
from daemon.store.erasing import NameTaken
from memory.conversations import Conversations
from memory.facts import ACTIVE, Fact
from memory.memory import Memory
from memory.search import Scope
from memory.utterance import Utterance

MEMORY_WAITS = (
    "Something is to be remembered that came from another person, or from a conversation that had"
    " read text from outside. It is used nowhere before your yes: /memory pending shows it."
)
MEMORY_USAGE = """\
/memory: what is remembered
/memory search WORDS: what was said
/memory who KEY: what holds, and what held before
/memory consolidate: look through what you said for facts to keep
/memory pin ID, /memory unpin ID: show it to each of your turns, or no longer
/memory pending: what waits for your yes
/memory approve ID, /memory reject ID: say yes or no
/memory embed HOST: allow it to be sent what was said ([memory.openai])
/forget WORDS, /forget ID: remove it
/forget --person NAME: remove all that somebody said, and their name everywhere"""
PERSON_PREVIEW = """\
Nothing was forgotten yet. This is about: {names}
All that they said would go, what was said elsewhere with a name of theirs would be found no more, \
and the {turns} turns that they began or steered would be empty. In what else the journal has each \
of these names would be replaced, wherever it stands as a word of its own. It cannot be undone; \
backups that hold a name are deleted.
{facts}
/forget --person {name} {code} does it."""
NOTHING_FITS = "Nothing was forgotten: nothing in memory has all these words, or this id."
SAID = re.compile(r"s\d{1,15}")
CODE = re.compile(r"[0-9a-f]{6}")
ALSO_GONE = (
    "The turns in which it was said go, too: their words leave the journal as soon as they have"
    " ended and nothing of them is on its way. Backups that were made before still hold them."
)
LISTED, PAGE, ID_CHARS = 20, 10, 8


def count_memories(count: int) -> str:
    """Such as "3 memories wait for"."""
    return "1 memory waits for" if count == 1 else f"{count} memories wait for"


@value
class MemoryCommands:
    """For the owner, in a chat that nobody else reads."""

    facts: Memory
    conversations: Conversations
    consolidator: Consolidator
    forgetter: Forgetter
    consent: EndpointConsent
    clock: Clock

    async def memory(self, call: CommandCall) -> str:
        """/memory [search WORDS|who KEY|consolidate|pin ID...|unpin ID...|pending|approve ID...
        |approve all CODE|reject ID...|reject all|embed HOST]
        """
        verb, *words = call.argument.lower().split()[:100] or [""]
        match verb, words:
            case ("" | "list", []):
                return await self._list()
            case "pending", []:
                return await self._list_pending()
            case "search", [_, *_]:
                return await self._search(call.argument.split(maxsplit=1)[1])
            case "who", [key]:
                known = await self.facts.list_history(key)
                return "\n".join(map(_render, known)) or f"Nothing has the key {make_visible(key)}."
            case "consolidate", []:
                return str(await self.consolidator.consolidate(call.session.id))
            case "embed", [host]:
                return await self.consent.allow(host)
            case "pin" | "unpin", [_, *_]:
                return await self._pin(words, pinned=verb == "pin")
            case "approve", [_, *_]:
                return await self._decide(call, words, self.facts.approve, "Approved")
            case "reject", [_, *_]:
                return await self._decide(call, words, self.facts.reject, "Rejected")
            case _:
                return MEMORY_USAGE

    async def forget(self, call: CommandCall) -> str:
        """/forget WORDS, or ids; where the words fit several, they are listed first."""
        words = call.argument.split()
        if words[:1] == ["--person"]:
            return await self._forget_person(words[1:], call.turn)
        if not words:
            return MEMORY_USAGE
        found = [one for word in words if len(one := await self.facts.find(word)) == 1]
        by_id = len(found) == len(words)
        facts = (
            [fact for one in found for fact in one]
            if by_id
            else await self.facts.matching(call.argument, LISTED)
        )
        is_sure = by_id or len(facts) == 1
        facts = facts or await self.facts.matching(call.argument, LISTED, loosely=True)
        if not facts:
            return await self._forget_said(words)
        if not is_sure:
            shown = "\n".join(map(_render, facts))
            return f"Nothing was forgotten yet. These fit; /forget ID removes one:\n{shown}"
        gone = [fact for fact in facts if await self.facts.forget(fact.id)]
        dates = ", ".join(f"{one.id[:ID_CHARS]} of {show_day(one.at)}" for one in gone)
        return f"Forgotten: {dates}. {ALSO_GONE}"

    async def _forget_said(self, words: Sequence[str]) -> str:
        """What was said, by its number; by words it is only listed."""
        rows = [int(one[1:]) for one in words if SAID.fullmatch(one)]
        if len(rows) == len(words):
            gone = [row for row in rows if await self.facts.forget_said(row)]
            missing = [f"s{row}" for row in rows if row not in gone]
            told = f"Forgotten: {', '.join(f's{row}' for row in gone)}. {ALSO_GONE}" if gone else ""
            lost = f"There is no {', '.join(missing)}." if missing else ""
            return " ".join(filter(None, (told, lost))) or NOTHING_FITS
        found = await self.facts.list_said(" ".join(words), PAGE)
        if not found:
            return NOTHING_FITS
        shown = "\n".join(f"s{row} {_render_said(one)[2:]}" for row, one in found)
        return (
            f"Nothing was forgotten yet. This was said; /forget sNUMBER removes one turn:\n{shown}"
        )

    async def _forget_person(self, words: list[str], turn: str) -> str:
        """First what would go, then, by its code, it goes."""
        last = words.pop() if len(words) > 1 and CODE.fullmatch(words[-1]) else ""
        name = " ".join(words)
        if not is_name(name):
            return f"Nothing was forgotten: the name needs {LEAST_NAME} characters at least."
        person = await self.forgetter.find_person(name)
        if person.is_owner:
            return "Nothing was forgotten: this is an owner."
        if last != person.code:
            facts = await self.forgetter.list_naming(person)
            shown = [f"- {make_visible(one)}" for one in facts[:PAGE]]
            more = [f"and {len(facts) - PAGE} more"] if len(facts) > PAGE else []
            head = [f"Memories that would go: {len(facts)}"]
            if person.common:
                common = make_visible(", ".join(person.common))
                head.insert(0, f"They call themselves so, and others say it: it stays: {common}")
            return PERSON_PREVIEW.format(
                facts="\n".join((*head, *shown, *more)),
                names=make_visible(", ".join(person.names)),
                turns=len(person.turns),
                name=make_visible(name),
                code=person.code,
            )
        try:
            done = await self.forgetter.forget_person(person, turn)
        except NameTaken as error:
            return f"Nothing was forgotten: {error}."
        later = f" {done.waiting} are at work or on their way; they follow." * bool(done.waiting)
        lines = [f"Forgotten, in memory ({done.rows} entries), journal and files.{later}"]
        if done.kept:
            kept = make_visible(", ".join(done.kept))
            lines.append(f"The journal uses these words itself, so they stay in it: {kept}")
        if done.files.removed:
            lines.append("Removed: " + make_visible(", ".join(done.files.removed), 0))
        if done.files.left:
            lines += ["These still hold a name; they are yours to change:"]
            lines += [f"- {make_visible(one)}" for one in done.files.left]
        return "\n".join((*lines, "Copies on the platforms and elsewhere I cannot reach."))

    async def _pin(self, words: Sequence[str], *, pinned: bool) -> str:
        """Each turn of the owner's is shown what is pinned, whatever it is about."""
        done = "Pinned" if pinned else "No longer pinned"
        lines = list[str]()
        for word in words:
            known = [one for one in await self.facts.find(word) if one.state == ACTIVE]
            if len(known) == 1 and await self.facts.pin(known[0].id, pinned=pinned):
                lines.append(f"{done}: {make_visible(known[0].text)}")
            else:
                lines.append(f"{make_visible(word)} is not the id of one memory. /memory lists.")
        return "\n".join(lines)

    async def _search(self, words: str) -> str:
        """What the owner remembers, then what was said, by whomever."""
        facts = await self.facts.recall(words, PAGE)
        said = await self.conversations.search(words, Scope(own=False), PAGE)
        shown = [_render(fact) for fact in facts]
        shown += [_render_said(one) for one in said if one.fits]
        return "\n".join(shown) or "Nothing in memory fits that."

    async def _list(self) -> str:
        known = await self.facts.facts(LISTED)
        head = "The newest memories:" if known else "Nothing is remembered yet."
        waiting = self.facts.waiting
        tail = f"{count_memories(waiting)} your yes: /memory pending" if waiting else ""
        return "\n".join(filter(None, (head, *map(_render, known), tail, MEMORY_USAGE)))

    async def _list_pending(self) -> str:
        waiting = await self.facts.pending(PAGE)
        if not waiting:
            return "Nothing waits for your yes."
        count = self.facts.waiting
        more = f"{count - len(waiting)} more come after these." if count > len(waiting) else ""
        parts = (
            f"{count_memories(count)} your yes. Text from outside had been read when they were"
            " made; nothing uses them until then.",
            *(_render(fact, whole=True) for fact in waiting),
            more,
            f"/memory approve ID makes one yours, /memory approve all {_code_of(waiting)} exactly"
            " these; /memory reject ID or /memory reject all removes them.",
        )
        return "\n".join(filter(None, parts))

    async def _decide(
        self,
        call: CommandCall,
        words: Sequence[str],
        decide: Callable[..., Awaitable[bool]],
        done: str,
    ) -> str:
        chosen = await self._choose(words, may_be_unseen=done == "Rejected")
        now = self.clock.now()
        if len(chosen) > PAGE:
            count = sum([await decide(fact.id, call.sender, now) for fact in chosen])
            return f"{done}: {count} memories."
        lines = [
            f"{done}: {make_visible(fact.text)}"
            if await decide(fact.id, call.sender, now)
            else f"{fact.id[:ID_CHARS]} does not wait any more."
            for fact in chosen
        ]
        return "\n".join(lines)

    async def _choose(self, words: Sequence[str], *, may_be_unseen: bool) -> list[Fact]:
        """By their ids, which never mean another one; "all" of a list by its code. Raises
        UsageError: nothing is done then.
        """
        waiting = await self.facts.pending()
        if words[0] == "all":
            if may_be_unseen and len(words) == 1 and waiting:
                return waiting
            pages = (waiting[:count] for count in range(1, PAGE + 1))
            page = next((page for page in pages if page and [_code_of(page)] == [*words[1:]]), None)
            if not page:
                raise UsageError("Nothing was done: what waits has changed. /memory pending lists.")
            return page
        chosen = []
        for word in words:
            fits = [fact for fact in waiting if len(word) >= ID_CHARS and fact.id.startswith(word)]
            if len(fits) != 1:
                raise UsageError(
                    f"Nothing was done: {make_visible(word)} is not the id of one that waits."
                    " /memory pending lists them."
                )
            chosen += fits
        return chosen


def _code_of(facts: Sequence[Fact]) -> str:
    """Stands for exactly these."""
    return blake2b("".join(fact.id for fact in facts).encode(), digest_size=3).hexdigest()


def _render(fact: Fact, *, whole: bool = False) -> str:
    """One line, invisible characters spelled out; where it is from."""
    turn = f"turn {make_visible(fact.turn)}" if fact.turn else "turn unknown"
    source = f"{turn} of {make_visible(fact.session)}" if fact.session else turn
    terms = [f"{show_day(fact.at)}", fact.label, source]
    if fact.key:
        terms.insert(0, fact.key)
    if fact.until:
        terms.insert(0, f"no longer, since {show_day(fact.until)}")
    if fact.pinned:
        terms.append("pinned")
    if fact.tainted_by:
        terms.append(f"tainted by {make_visible(fact.tainted_by)}")
    if fact.approved_by:
        terms.append(f"approved by {make_visible(fact.approved_by)}")
    text = make_visible(fact.text, 0) if whole else make_visible(fact.text)
    return f"- {fact.id[:ID_CHARS]} ({', '.join(terms)})\n    {text}"


def _render_said(one: Utterance) -> str:
    """When, where and by whom, and the words."""
    mark = "" if one.label == Label.TRUSTED.value else ", from outside"
    who = f", {make_visible(one.speaker)}" if one.speaker else ""
    day, where = show_day(one.at), make_visible(one.session)
    return f"- {day}, {where}{who}{mark}\n    {make_visible(one.text)}"
