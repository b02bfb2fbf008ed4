"""The texts of a conversation as evidence for one call: whose values it has, whether the owner
ordered it, and what it would tell others (trust.md). Only the gate comes here, for few calls.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.core import value
from daemon.core.events import ModelAsked
from daemon.core.provenance import Origin, SourcedText, TrustContext, collect_texts
from daemon.core.rows import Disclosure
from daemon.core.trust import Decision, Effect, Label
from daemon.core.turn import Turn
from daemon.tools.calls import AdmittedCall
from daemon.tools.policy import consent
from daemon.tools.policy.disclosure import (
    EARLIER,
    SAID,
    Cost,
    find_leaks,
    find_orders,
    holds_all,
    is_owners_word,
    is_private,
    list_earlier,
    list_own_words,
    name_source,
    price_fetch,
    price_query,
    tells_of_self,
    tells_unnamed,
)
from daemon.tools.policy.gate import PolicyInput, Provenance, Taint
from daemon.tools.policy.provenance import Evidence, NamedValue, text_holds
from daemon.tools.policy.stemming import word_set

if TYPE_CHECKING:
    from daemon.tools.policy.gate import PolicyGate

NOT_SAID = "your words do not plainly order it"
MODEL_SAYS_NO = "it does not seem to be what you ordered"
DONE_BEFORE = "it was done, or tried, at your order before"
OTHERS_READ = "others in this chat would read the answer"
NOT_SURE = "it is not certain that you ordered it"
PEOPLE = word_set("""
    to cc bcc recipient recipients user users username person people contact participant
    participants attendees invitees member members channel chat room group receiver payee account
    iban phone number email address
""")


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

    async def weigh(self, *, ask: bool) -> PolicyInput:
        """The case with its facts. `ask`: a model may be asked, and a fetch is counted."""
        gate, tool, arguments = self.gate, self.call.tool, self.call.arguments
        if self.case.effect is Effect.READ:
            return await self._weigh_read() if ask else self.case
        texts = collect_texts(self.turn)
        setting = self.setting
        whole = (*list_earlier(setting), *setting.work, *texts)
        evidence = Evidence(whole, gate.registry, gate.contacts())
        case = replace(
            self.case,
            provenance=evidence.check(tool, arguments),
            private=is_private(setting, texts),
        )
        if case.taint is Taint.NONE and case.effect is Effect.EGRESS:
            case = self._weigh_plain_order(case, evidence, texts)
        elif case.taint is not Taint.READ_OUTSIDE_TEXT:
            return case
        elif case.effect is Effect.FETCH:
            return await self._weigh_fetch(case, evidence, texts, ask=ask)
        elif case.effect in (Effect.WRITE, Effect.EGRESS) and (
            tool.meta.critical != () or tool.meta.source
        ):
            case = await self._weigh_order(case, evidence, texts, ask=ask)
        return await self._use_order(case, texts) if ask else case

    async def _weigh_read(self) -> PolicyInput:
        """Where others read the answers, they would read what no order names."""
        case, tool = self.case, self.call.tool
        if case.taint is Taint.NONE or tool.meta.public or not await self._is_shared():
            return case
        orders = find_orders(self.setting, collect_texts(self.turn))
        words = Evidence(_as_said(orders), self.gate.registry)
        if name_source(tool, self.call.arguments, words)[1]:
            return case
        return replace(case, unordered=OTHERS_READ)

    async def _is_shared(self) -> bool:
        return await self.gate.grants.is_shared(self.setting.root or self.turn.session)

    async def _weigh_fetch(
        self, case: PolicyInput, evidence: Evidence, texts: Sequence[SourcedText], *, ask: bool
    ) -> PolicyInput:
        """Choosing an address tells something, once there is something to tell; a search could tell
        what the owner has said before, too.
        """
        meta, arguments = self.call.tool.meta, self.call.arguments
        has_said = meta.query and any(map(is_owners_word, self.setting.earlier))
        if not (case.private or has_said or self._has_told(texts)) or not ask:
            return case
        if meta.query:
            query = str(arguments.get(meta.query) or "")
            try:
                cost = price_query(query, evidence, find_orders(self.setting, texts))
            except ValueError:
                unsaid = Provenance(not_owned=query)
                return replace(case, effect=Effect.EGRESS, provenance=unsaid)
        else:
            found = consent.named_values(arguments, meta.critical)
            cost = price_fetch(str(found[0][1]) if found else "", evidence)
        if cost and self.gate.judge(case)[0] is Decision.ALLOW:
            return replace(case, excess=await self._count(cost))
        return case

    def _has_told(self, texts: Sequence[SourcedText]) -> bool:
        """The owner has: in an earlier message, or of themselves in this one."""
        return tells_unnamed(self.setting.earlier) or tells_of_self(texts)

    async def count_redirect(self, url: str) -> str:
        """A fetch is led on to this address: why that is too much, or ""."""
        texts = collect_texts(self.turn)
        if not (is_private(self.setting, texts) or self._has_told(texts)):
            return ""
        whole = (*self.setting.earlier, *self.setting.work, *texts)
        cost = price_fetch(url, Evidence(whole, self.gate.registry, self.gate.contacts()))
        return await self._count(replace(cost, bits=0.0), f">{url}") if cost else ""

    async def _count(self, cost: Cost, step: str = "") -> str:
        """Why it is too much, or "". The call is on disk before it counts."""
        await self.turn.commit()
        return await self.gate.grants.count_disclosure(self._disclose(cost, step))

    def _disclose(self, cost: Cost, step: str = "") -> Disclosure:
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
        not done today. Nobody asks while the turn is clean.
        """
        meta = self.call.tool.meta
        is_deed = case.effect is Effect.EGRESS and meta.critical != ()
        if not is_deed or self.gate.judge(case)[0] is not Decision.ALLOW:
            return case
        values = consent.named_values(self.call.arguments, meta.critical)
        own, orders = list_own_words(self.setting, texts), find_orders(self.setting, texts)
        await self.turn.commit()
        deed = self._disclose(Cost(0.0, consent.list_keys(self.call.tool.name, values)))
        done = await self.gate.grants.count_order(deed, bare=len(orders) > len(own))
        tainted = case.taint is Taint.READ_OUTSIDE_TEXT
        return replace(case, unordered=DONE_BEFORE) if done and tainted else case

    def _weigh_plain_order(
        self, case: PolicyInput, evidence: Evidence, texts: Sequence[SourcedText]
    ) -> PolicyInput:
        """Nothing of a stranger's was read that is known as such. A pasted line without any mark of
        it looks like the owner's: where a value is not in one line with the order, the words must
        order the deed plainly.
        """
        orders = find_orders(self.setting, texts)
        deed, _ = self._build_deed(case, evidence, orders, ())
        if len(orders) == 1 and "\n" not in orders[0].strip():
            said = [str(found) for _, found in deed.values]
            if all(one in orders[0] for one in said) or consent.find_order(
                replace(deed, values=()), orders
            ):
                return case
        elif consent.find_order(deed, orders):
            return case
        elsewhere = [text.text for text in evidence.texts if is_owners_word(text)]
        if not any(str(found) in text for text in elsewhere for _, found in deed.values):
            return case  # from a contact, memory or a trusted tool
        return replace(case, unordered=NOT_SAID)

    def _build_deed(
        self, case: PolicyInput, evidence: Evidence, orders: Sequence[str], named: Sequence[str]
    ) -> tuple[consent.Deed, tuple[NamedValue, ...]]:
        """The deed in the owner's words, and its exact values."""
        meta = self.call.tool.meta
        exact = consent.named_values(self.call.arguments, meta.critical)
        tool = self.call.tool.name
        sends = case.effect is Effect.EGRESS
        values = tuple(
            _find_title(
                one,
                tool,
                evidence,
                orders,
                not (sends and (consent.leads_outside(one[1]) or one[0] in PEOPLE)),
            )
            for one in exact
        )
        to_self = bool(meta.paths)
        return consent.Deed(tool, case.effect, values, tuple(named), to_self), exact

    async def _weigh_order(
        self, case: PolicyInput, evidence: Evidence, texts: Sequence[SourcedText], *, ask: bool
    ) -> PolicyInput:
        """A strict reading of the owner's words, then what private content would go along, then a
        model that sees nothing of a stranger's.
        """
        if self.gate.judge(case)[0] is not Decision.ALLOW:
            return case  # it is asked about anyway
        tool = self.call.tool
        orders = find_orders(self.setting, texts)
        foreign, named = self._find_leaks(evidence, texts, orders)
        deed, exact = self._build_deed(case, evidence, orders, named)
        why = ""
        if tool.meta.critical != () and not consent.find_order(deed, orders):
            why = NOT_SAID
        elif (
            foreign
            and (case.effect is Effect.EGRESS or tool.meta.source)
            and (not deed.to_self or await self._is_shared())
        ):
            goes = ", ".join(dict.fromkeys(foreign))
            why = f"what you did not order may go along: {goes}"
        elif ask and tool.meta.critical != ():
            why = await self._ask_model(deed, exact, orders)
        return replace(case, unordered=why)

    def _find_leaks(
        self, evidence: Evidence, texts: Sequence[SourcedText], orders: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """The private sources that may go along unordered, and those that the orders name."""
        arguments, critical = self.call.arguments, self.call.tool.meta.critical
        foreign, named = find_leaks(
            self.setting,
            texts,
            replace(evidence, texts=_as_said(orders)),
            replace(evidence, texts=[text for text in evidence.texts if is_owners_word(text)]),
            [str(found) for _, found in consent.named_values(arguments, critical)],
            tainted=any(
                isinstance(one.event, ModelAsked) and one.event.label is Label.UNTRUSTED
                for one in self.turn.events
            ),
        )
        if holds_all(arguments, critical, orders):
            return [], named  # nothing goes along that the owner did not say
        return foreign, named

    def list_carried(self) -> list[str]:
        """The private sources that what the call writes may hold, though no order names them."""
        texts = collect_texts(self.turn)
        whole = (*list_earlier(self.setting), *self.setting.work, *texts)
        evidence = Evidence(whole, self.gate.registry, self.gate.contacts())
        foreign, _ = self._find_leaks(evidence, texts, find_orders(self.setting, texts))
        here = f"what was said and read in {self.turn.session}"
        return [here if one in (SAID, EARLIER) else one for one in foreign]

    async def _ask_model(
        self, deed: consent.Deed, exact: Sequence[NamedValue], orders: Sequence[str]
    ) -> str:
        """Why the model's answer is no plain yes; an answer that was recorded is not asked for
        again.
        """
        purpose = f"{consent.PURPOSE} {self.call.state.call_id}"
        known = [one.text for one in self.turn.consultations if one.purpose == purpose]
        if not known and self.setting.consult:
            question = consent.build_question(deed, exact, orders)
            known = [await self.setting.consult(purpose, consent.SYSTEM, question) or ""]
        answer = consent.parse_answer(known[-1] if known else "")
        return "" if answer else MODEL_SAYS_NO if answer is False else NOT_SURE


def _as_said(orders: Sequence[str]) -> list[SourcedText]:
    return [SourcedText(text, Origin.PERSON, Label.TRUSTED) for text in orders]


def _find_title(
    one: NamedValue, tool: str, evidence: Evidence, orders: Sequence[str], titles: bool
) -> NamedValue:
    """What the owner calls the record that the value stands in, where they do not say it. Nothing
    stands for an address that something is sent to: a stranger may have written the record.
    """
    name, found = one
    if not titles or any(text_holds(text, found, name, tool) for text in orders):
        return one
    return name, next(iter(evidence.list_titles(str(found))), found)
