"""The texts of a conversation as evidence for one call: whose values it has, whether the owner
ordered it, and what it would tell others (trust.md). Only the gate comes here, for few calls.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.core import value
from daemon.core.events import ModelAsked
from daemon.core.labels import find_private
from daemon.core.messages import defuse_images
from daemon.core.provenance import (
    Origin,
    SourcedText,
    TrustContext,
    collect_texts,
    is_owners_word,
)
from daemon.core.rows import Disclosure
from daemon.core.trust import Decision, Effect, Label
from daemon.core.turn import Turn
from daemon.tools.calls import AdmittedCall
from daemon.tools.policy.addresses import (
    find_addresses,
    iter_values,
    leads_outside,
    stands_in,
)
from daemon.tools.policy.disclosure import (
    DisclosureCost,
    Source,
    find_leaks,
    find_orders,
    holds_all,
    is_private,
    list_earlier,
    list_own_words,
    price_fetch,
    price_query,
)
from daemon.tools.policy.facts import OTHERS_READ, PolicyInput, Provenance, Taint
from daemon.tools.policy.orders import (
    PURPOSE,
    SYSTEM,
    TELL_HERE,
    Order,
    OrderQuestion,
    list_critical,
    list_keys,
    name_words,
    named_values,
)
from daemon.tools.policy.provenance import Evidence, is_choice

if TYPE_CHECKING:
    from daemon.tools.policy.gate import PolicyGate

NOT_SAID = "your words do not order it"
DONE_BEFORE = "it was done, or tried, at your order before"
NOT_SURE = "no model could tell whether your words order it"


@value
class TaintedCall:
    """A call whose verdict depends on what was said and read. Nothing here looks for bad words: it
    looks for the owner's.
    """

    gate: "PolicyGate"
    turn: Turn
    call: AdmittedCall
    setting: TrustContext
    case: PolicyInput

    async def weigh(self, *, ask: bool, shows: bool = False) -> PolicyInput:
        """The case with its facts. `ask`: a model may be asked, and a fetch is counted; `shows`: it
        counts who reads the answer.
        """
        tool, arguments = self.call.tool, self.call.arguments
        if shows and ask and (case := await self._weigh_readers()).unordered:
            return case
        if self.case.effect is Effect.READ:
            return self.case
        texts = collect_texts(self.turn)
        setting, evidence = self.setting, self._collect_evidence(texts)
        has_read = self.case.taint in (Taint.READ_OWN, Taint.READ_OUTSIDE_TEXT)
        needs_order = self._needs_order(self.case)
        case = replace(
            self.case,
            provenance=evidence.check(tool, arguments, ordered=has_read and needs_order),
            private=is_private(self.turn, setting),
        )
        if case.taint is Taint.NONE and case.effect is Effect.EGRESS:
            case = await self._weigh_plain_order(case, evidence, texts, ask=ask)
        elif not has_read:
            return case
        elif case.effect is Effect.FETCH:
            return await self._weigh_fetch(case, evidence, texts, ask=ask)
        elif self._makes_new_file(case, evidence):
            return replace(case, provenance=Provenance())  # it is a stranger's, like all of it
        elif needs_order:
            case = await self._weigh_order(case, evidence, texts, ask=ask)
        return await self._use_order(case, texts) if ask else case

    def _makes_new_file(self, case: PolicyInput, evidence: Evidence) -> bool:
        """It writes one file where none was, or that it made, without an address that nobody wrote:
        who shows the file could load that.
        """
        tool = self.call.tool
        if case.effect is not Effect.WRITE or not tool.meta.paths or not tool.meta.critical:
            return False
        targets = [self.call.arguments.get(name) for name in tool.meta.critical]
        whole = "\n".join(str(leaf) for _, leaf in iter_values(self.call.arguments, ""))
        links = find_addresses(whole).links if case.private else ()
        if case.private and defuse_images(whole) != whole:
            return False
        if not all(evidence.is_typed(one) or evidence.was_read(one) for one in links):
            return False
        is_free = self.gate.is_free
        return all(isinstance(one, str) and is_free(one, self.turn.session) for one in targets)

    def _needs_order(self, case: PolicyInput) -> bool:
        """What leaves, and notes of a service; once a stranger's text was read, files, too."""
        if case.effect is not Effect.WRITE:
            return case.effect is Effect.EGRESS
        tool, is_strange = self.call.tool, case.taint is not Taint.READ_OWN
        lasts = self.gate.lasts(self.turn, self.call)
        return lasts or (is_strange and tool.meta.critical != ())

    async def _weigh_readers(self) -> PolicyInput:
        """Where others read the answers, they would read what no order names."""
        case, tool = self.case, self.call.tool
        if not await self._is_shared():
            return case
        texts = collect_texts(self.turn)
        words = find_orders(self.setting, texts)
        name = tool.name_source(self.call.arguments)
        source = Source(name, name)
        orders = await self._list_orders(words, ask=True) or ()
        sources = [one.sources for one in orders if one.tool == TELL_HERE]
        if any(source.is_ordered(one, words) for one in sources):
            return case
        return replace(case, unordered=OTHERS_READ)

    def _collect_evidence(self, texts: Sequence[SourcedText]) -> Evidence:
        """All that was said and read, for one call."""
        whole = (*list_earlier(self.setting), *self.setting.work, *texts)
        return Evidence(whole, self.gate.registry, self.gate.contacts())

    async def _is_shared(self) -> bool:
        where = self.setting.root or self.turn.session
        if where.startswith("web:") and not self.turn.is_owners:
            return False  # an editor's own conversation, which viewers may read
        return await self.gate.grants.is_shared(where)

    async def _weigh_fetch(
        self, case: PolicyInput, evidence: Evidence, texts: Sequence[SourcedText], *, ask: bool
    ) -> PolicyInput:
        """Choosing an address tells something of what the owner has said, or the turn has read."""
        meta, arguments = self.call.tool.meta, self.call.arguments
        if not ask:
            return case
        if meta.query and case.taint is Taint.READ_OWN:
            return case  # a search engine is told what the owner's own texts suggest
        if meta.query:
            query = str(arguments.get(meta.query) or "")
            try:
                cost = price_query(query, evidence, find_orders(self.setting, texts))
            except ValueError:
                unsaid = Provenance(not_owned=query)
                return replace(case, effect=Effect.EGRESS, provenance=unsaid)
        elif meta.source and arguments and not self._asks_plainly(texts):
            # what a server is asked for may tell anything, in any way of writing it
            return replace(case, effect=Effect.EGRESS, unordered=NOT_SAID)
        else:
            found = named_values(arguments, meta.critical)
            cost = self._price(str(found[0][1]) if found else "", evidence)
        if cost and self.gate.judge(case)[0] is Decision.ALLOW:
            return replace(case, excess=await self._count(cost))
        return case

    def _asks_plainly(self, texts: Sequence[SourcedText]) -> bool:
        """Beside an address it tells no more than the owner said, and choices of the tool."""
        tool, critical = self.call.tool, self.call.tool.meta.critical
        free = [key for key, one in self.call.arguments.items() if is_choice(tool, key, one)]
        return critical is not None and holds_all(
            self.call.arguments, (*critical, *free), find_orders(self.setting, texts)
        )

    async def count_redirect(self, url: str) -> str:
        """A fetch is led on to this address: why that is too much, or ""."""
        cost = self._price(url, self._collect_evidence(collect_texts(self.turn)))
        return await self._count(replace(cost, bits=0.0), f">{url}") if cost else ""

    def _price(self, url: str, evidence: Evidence) -> DisclosureCost | None:
        return price_fetch(url, evidence, private=bool(self.turn.private))

    async def _count(self, cost: DisclosureCost, step: str = "") -> str:
        """Why it is too much, or "". The call is on disk before it counts."""
        await self.turn.commit()
        return await self.gate.grants.count_disclosure(self._disclose(cost, step))

    def _disclose(self, cost: DisclosureCost, step: str = "") -> Disclosure:
        return Disclosure(
            f"{self.turn.id}/{self.call.state.call_id}{step}",
            self.setting.root or self.turn.session,
            self.setting.root_turn or self.turn.id,
            0,
            cost.domain,
            cost.bits,
        )

    async def _use_order(self, case: PolicyInput, texts: Sequence[SourcedText]) -> PolicyInput:
        """An order is for one deed, with all that it set to work; a bare "yes" is for one that was
        not done today. Where no argument decides, all do that the owner said. Nobody asks while the
        turn is clean.
        """
        meta, critical = self.call.tool.meta, self.call.tool.meta.critical
        is_deed = case.effect is Effect.EGRESS or meta.source
        if not is_deed or self.gate.judge(case)[0] is not Decision.ALLOW:
            return case
        own, orders = list_own_words(self.setting, texts), find_orders(self.setting, texts)
        if critical == () and holds_all(self.call.arguments, critical, orders):
            critical = None
        people = {
            one.casefold(): name for name, known in self.gate.contacts().items() for one in known
        }
        values = [
            (key, people.get(str(found).casefold(), found))
            for key, found in named_values(self.call.arguments, critical)
        ]  # one person, however they are named
        await self.turn.commit()
        deed = self._disclose(DisclosureCost(0.0, list_keys(self.call.tool.name, values)))
        done = await self.gate.grants.count_order(deed, bare=len(orders) > len(own))
        has_read = case.taint is not Taint.NONE
        return replace(case, unordered=DONE_BEFORE) if done and has_read else case

    async def _weigh_plain_order(
        self, case: PolicyInput, evidence: Evidence, texts: Sequence[SourcedText], *, ask: bool
    ) -> PolicyInput:
        """Nothing of a stranger's was read that is known as such. A pasted line without any mark of
        it looks like the owner's: where the words have several lines, or the value stands in
        another message, they must order the deed.
        """
        words = find_orders(self.setting, texts)
        values = named_values(self.call.arguments, self.call.tool.meta.critical)
        if self.gate.judge(case)[0] is not Decision.ALLOW:
            return case
        plain = [text for text in words if "\n" not in text.strip()]
        if len(plain) == len(words) and all(
            any(stands_in(text, found) for text in plain) for _, found in values
        ):
            return case
        elsewhere = [text.text for text in evidence.texts if is_owners_word(text)]
        if not any(stands_in(text, found) for text in elsewhere for _, found in values):
            return case  # from a contact, memory or a trusted tool
        orders = await self._list_orders(words, ask=ask)
        return replace(case, unordered=self._explain_order(case, evidence, orders, ask=ask)[0])

    async def _weigh_order(
        self, case: PolicyInput, evidence: Evidence, texts: Sequence[SourcedText], *, ask: bool
    ) -> PolicyInput:
        """The owner's words must order it, and what private content would go along."""
        if self.gate.judge(case)[0] is not Decision.ALLOW:
            return case  # it is asked about anyway
        tool, words = self.call.tool, find_orders(self.setting, texts)
        is_strange = case.taint is Taint.READ_OUTSIDE_TEXT
        leaks = self._find_leaks(evidence, texts, words) if is_strange else []
        goes = case.effect is Effect.EGRESS or tool.meta.source
        if not goes or (tool.meta.paths and not await self._is_shared()):
            leaks = []
        if tool.meta.critical == () and not (leaks or tool.meta.source):
            return case
        orders = await self._list_orders(words, ask=ask)
        why, order = self._explain_order(case, evidence, orders, ask=ask)
        sources = order.sources if order else frozenset[str]()
        unordered = [one.shown for one in leaks if not one.is_ordered(sources, words)]
        if unordered and not why:
            why = f"what you did not order may go along: {', '.join(dict.fromkeys(unordered))}"
        return replace(case, unordered=why)

    def _explain_order(
        self, case: PolicyInput, evidence: Evidence, orders: Sequence[Order] | None, *, ask: bool
    ) -> tuple[str, Order | None]:
        """Why the words do not order the call, or ""; and the entry that orders it."""
        tool = self.call.tool
        arguments = self.call.arguments
        values = named_values(arguments, list_critical(tool, arguments))
        order = next(
            (one for one in orders or () if one.allows(tool, case.effect, values, evidence)), None
        )
        if order or (tool.meta.critical == () and not tool.meta.source):
            return "", order
        if orders is None:
            return NOT_SURE if ask else "", None
        return NOT_SAID, None

    def _find_leaks(
        self,
        evidence: Evidence,
        texts: Sequence[SourcedText],
        words: Sequence[str],
        *,
        kept: bool = False,
    ) -> list[Source]:
        """The private sources that may go along; `kept`: into a file, whoever read them."""
        arguments, critical = self.call.arguments, self.call.tool.meta.critical
        values = [str(found) for _, found in named_values(arguments, critical)]
        unsaid = [one for one in values if leads_outside(one) and not evidence.is_typed(one)]

        def is_looked_up(text: SourcedText) -> bool:
            return evidence.is_look_up(text) and any(stands_in(text.text, one) for one in unsaid)

        given = [text.text for text in texts if text.origin is Origin.QUOTED]
        if holds_all(arguments, critical, [*words, *given]):
            return []  # nothing goes along that the owner's message does not have
        return find_leaks(
            self.setting,
            texts,
            words,
            is_looked_up,
            carried=find_private(self.turn.events[0].event),
            tainted=kept
            or any(
                isinstance(one.event, ModelAsked) and one.event.label is Label.UNTRUSTED
                for one in self.turn.events
            ),
        )

    def list_carried(self) -> list[str]:
        """The private sources that what the call writes may hold, though no order names them."""
        texts = collect_texts(self.turn)
        evidence = self._collect_evidence(texts)
        words = find_orders(self.setting, texts)
        leaks = [one for one in self._find_leaks(evidence, texts, words, kept=True)]
        leaks = [one for one in leaks if not one.stands_in(words)]
        here = f"what was said and read in {self.turn.session}"
        return list(dict.fromkeys(here if one.earlier else one.name for one in leaks))

    async def _list_orders(self, words: Sequence[str], *, ask: bool) -> tuple[Order, ...] | None:
        """What the words order, as the model reads them: asked once for the same words, and what
        was answered is recorded. None where nobody could tell.
        """
        if not words:
            return ()  # nobody has said anything
        question, purpose = self._build_question(words), f"{PURPOSE} {name_words(words)}"
        known = [one.text for one in self.turn.consultations if one.purpose == purpose]
        if not known and ask and self.setting.consult:
            known = [await self.setting.consult(purpose, SYSTEM, question.build_text()) or ""]
        return question.read_answer(known[-1]) if known else None

    def _build_question(self, words: Sequence[str]) -> OrderQuestion:
        registry = self.gate.registry
        offered = (self.call.tool.name, *self.turn.offered_tools, *registry.names())
        tools = [tool for name in dict.fromkeys(offered) if (tool := registry.get(name))]
        acting = (Effect.WRITE, Effect.EGRESS)
        return OrderQuestion(
            tuple(words),
            [one for one in tools if one.meta.effect in acting],
            [one.name for one in tools if one.meta.effect is Effect.READ and not one.meta.public],
        )
