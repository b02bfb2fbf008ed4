"""The gate that every tool call passes: it collects the facts, and the judges decide (trust.md)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

from channels.markup.sanitize import shorten_line
from daemon.core import value
from daemon.core.provenance import Origin, TrustContext
from daemon.core.trust import Decision, Effect, Label, Role, ToolApprovals
from daemon.core.turn import PLAN_TOOL, Turn
from daemon.tools.base import ToolError
from daemon.tools.calls import (
    HEARTBEAT_FILE,
    READ_EFFECTS,
    SHOWN_CHARS,
    AdmittedCall,
    args_hash,
    is_protected,
)
from daemon.tools.policy.addresses import iter_values
from daemon.tools.policy.facts import OTHERS_READ, PolicyInput, Taint
from daemon.tools.policy.grants import PLAN_SCOPE, GrantRequest, GrantStore, grantable_paths
from daemon.tools.policy.judges import REASONS, TABLE, Judge, judge, quote
from daemon.tools.policy.plans import MAX_ACTIONS, find_fault, read_actions
from daemon.tools.policy.rules import STRICTNESS, RuleSet
from daemon.tools.registry import ToolRegistry

ALLOW, ASK, DENY = Decision
GIT_FOLDER = ".git"  # only git writes there
OWN_ROLES = {Role.OWNER, Role.GUEST}  # the sender of a mail or an event is no person here
OTHER_TOOL = "it is not the tool any more that this turn first called; a new message may call it"
OWNER_ONLY = "only the owner can use it, in a chat of theirs"
READ_ALONG = "it shows what is the owner's alone, and others read along here"


async def _is_shared(session: str) -> bool:
    return False


def _is_owners_talk(setting: TrustContext) -> bool:
    """Nobody but the owner has said anything in what the conversation is shown."""
    texts = (*setting.earlier, *setting.work)
    return all(one.owned or one.origin is not Origin.OTHER for one in texts)


def make_grant_request(turn: Turn, call: AdmittedCall, setting: TrustContext) -> GrantRequest:
    """What a standing permission for the call must cover."""
    return GrantRequest(
        call.tool.name,
        args_hash(call.tool.name, call.arguments),
        grantable_paths(call.tool.meta, call.arguments),
        untrusted=setting.session_label is Label.UNTRUSTED,
        binds=call.content.key,
        plan=f"{PLAN_SCOPE}{setting.root_turn or turn.id}",
        exact=turn.label is Label.UNTRUSTED or call.effect is Effect.DESTRUCTIVE,
    )


class GateVerdict(NamedTuple):
    """Whether a call may run, and why; `owners`: only the owner may say yes."""

    decision: Decision
    reason: str
    owners: bool = False


def is_owners_to_answer(call: AdmittedCall, case: PolicyInput) -> bool:
    """An admin's yes is not enough, though it is a WRITE: others would read its result, or it
    writes what the assistant does by itself as the owner's word.
    """
    prompts = (is_protected(path, (HEARTBEAT_FILE,)) for path in _list_paths(call))
    return case.unordered == OTHERS_READ or any(prompts)


def _list_paths(call: AdmittedCall) -> list[PurePosixPath]:
    """Its workspace paths; of a server's tool all that could be a place among the arguments."""
    if not call.tool.meta.source:
        return call.paths
    values = (str(one) for part in call.arguments.values() for _, one in iter_values(part, ""))
    return [PurePosixPath(unquote(one.removeprefix("file://"))) for one in values]


def find_taint(turn: Turn, setting: TrustContext) -> Taint:
    """A session from outside stays so; a trusted one has what it reads."""
    if setting.session_label is Label.UNTRUSTED:
        return Taint.FROM_OUTSIDE
    if turn.label is Label.UNTRUSTED:
        return Taint.READ_OUTSIDE_TEXT
    return Taint.READ_OWN if turn.private else Taint.NONE


@value(kw_only=True)
class PolicyGate:
    """`contacts` gives the people whom the owner has registered, with their addresses; `is_free`:
    the conversation may write the plain text at this path after a stranger's; `runs_later`: what
    is written at this path runs later by itself; `is_shared`: others read the session.
    """

    registry: ToolRegistry
    grants: GrantStore
    rules: RuleSet
    approvals: ToolApprovals = ToolApprovals()
    protected_paths: tuple[str, ...] = ()
    contacts: Callable[[], Mapping[str, Sequence[str]]] = dict
    is_free: Callable[[str, str], bool] = lambda path, session: False
    runs_later: Callable[[str], bool] = lambda path: False
    judge: Judge = judge
    is_shared: Callable[[str], Awaitable[bool]] = _is_shared

    async def check_address(
        self, turn: Turn, call: AdmittedCall, setting: TrustContext, url: str
    ) -> None:
        """A call that may run is led on to this address: rules are for it, too. Raises ToolError.

        A rule that asked about the call itself, and was answered, has had its say.
        """
        tool, named = call.tool, dict.fromkeys(call.tool.meta.critical or ("address",), url)
        rules = (turn.session, setting.root, tool)
        ruling = self.rules.ruling(*rules, {**call.arguments, **named})
        asked = self.rules.ruling(*rules, call.arguments) if call.state.approved else None
        why = ruling[1] if ruling and (ruling[0] is DENY or ruling != asked) else ""
        told = call.state.approved or call.effect is Effect.DESTRUCTIVE  # which a grant allows
        taint = find_taint(turn, setting)
        if taint is not Taint.NONE and not (why or told):
            from daemon.tools.policy.tainted_call import TaintedCall  # lazy: rarely used

            case = PolicyInput(effect=Effect.FETCH, taint=taint)
            why = await TaintedCall(self, turn, call, setting, case).count_redirect(url)
        if why:
            raise ToolError(
                f"Not followed: this leads to {quote(url)}, and {why};"
                " nothing was sent there. Ask for that address by itself, if it is wanted."
            )

    async def decide(
        self, turn: Turn, call: AdmittedCall, setting: TrustContext
    ) -> GateVerdict | None:
        """The verdict on a call; a grant that it needs is used up by one.

        None for a call judged before, unless the owner's rules and settings are stricter by now.
        What the turn has read since then does not count: the call was written before.
        """
        tool, effect = call.tool, call.effect
        if tool.meta.source and turn.tools.get(tool.name, tool.identity) != tool.identity:
            return GateVerdict(DENY, OTHER_TOOL)
        from_outside = setting.session_label is Label.UNTRUSTED or not turn.is_owners
        if (tool.meta.owner_only and from_outside) or (
            tool.meta.no_others and turn.roles - OWN_ROLES
        ):
            return GateVerdict(DENY, OWNER_ONLY)
        shows_own = tool.meta.owner_only and effect is Effect.READ and not tool.meta.asks
        if shows_own and await self.is_shared(turn.session):
            return GateVerdict(DENY, READ_ALONG)
        if tool.name == PLAN_TOOL and (why := self._explain_bad_plan(turn, call, setting)):
            return GateVerdict(DENY, why)
        earlier = call.state.judged
        case = self._collect_facts(turn, call, setting)
        is_clean, words = case.taint is Taint.NONE, ("if owned", "if read")
        weighs = shows = not (is_clean and turn.is_owners) and self._shows(call)
        if effect is not Effect.READ:
            asks = case.approvals not in ("risk", "never")
            by_words = TABLE[case.taint][effect] in words or asks
            writes = effect is Effect.WRITE and not is_clean
            weighs = weighs or by_words or (writes and self.lasts(turn, call))
        if weighs:
            from daemon.tools.policy.tainted_call import TaintedCall  # lazy: rarely used

            asked = TaintedCall(self, turn, call, setting, case)
            case = await asked.weigh(ask=not earlier, shows=shows)
        granted = self.judge(replace(case, has_grant=True))
        if earlier:
            stricter = STRICTNESS.index(granted[0]) > STRICTNESS.index(earlier.decision)
            owners = stricter and is_owners_to_answer(call, case)
            return GateVerdict(*granted, owners) if stricter else None
        decision, reason = self.judge(case)
        if decision is not ALLOW and granted[0] is ALLOW:
            # The reply is on disk first: a call lost in a crash must not use up a grant (K7).
            await turn.commit()
            wanted = make_grant_request(turn, call, setting)
            key = f"{turn.id}/{call.state.call_id}"
            if await self.grants.use_grant(turn.session, wanted, key):
                return GateVerdict(*granted)
        if decision is ASK and tool.meta.warning:
            reason = f"{reason}; {tool.meta.warning}"
        return GateVerdict(decision, reason, decision is ASK and is_owners_to_answer(call, case))

    def list_carried(
        self, turn: Turn, call: AdmittedCall, setting: TrustContext
    ) -> tuple[str, ...]:
        """The private sources that a tainted call may put into a file, unordered."""
        if call.changes_nothing or not (call.tool.meta.paths or call.effect is Effect.DESTRUCTIVE):
            return ()
        from daemon.tools.policy.tainted_call import TaintedCall  # lazy: rarely used

        case = self._collect_facts(turn, call, setting)
        return tuple(TaintedCall(self, turn, call, setting, case).list_carried())

    def lasts(self, turn: Turn, call: AdmittedCall) -> bool:
        """No /undo restores the write, or a program may read it before: a hidden file, or one that
        runs later by itself. And more was read than the tool's own list.
        """
        has_read = call.tool.meta.source or turn.label is Label.UNTRUSTED
        if not (has_read or {*turn.private} - {call.tool.name}):
            return False
        parts = (part for path in call.paths for part in path.parts)
        is_hidden = any(part.startswith(".") and part.strip(".") for part in parts)
        is_lasting = is_hidden or call.tool.is_lasting(call.arguments)
        return is_lasting or any(self.runs_later(str(path)) for path in call.paths)

    @staticmethod
    def _shows(call: AdmittedCall) -> bool:
        """Its result may be something of the owner's: it counts who reads the answer."""
        meta, tells = call.tool.meta, call.effect not in (Effect.WRITE, Effect.EGRESS)
        return bool(tells or meta.paths or meta.source) and not call.tool.is_public(call.arguments)

    def _explain_bad_plan(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> str:
        """Why nobody is asked, or ""."""
        actions = read_actions(call.arguments)
        if turn.parent or not 0 < len(actions) <= MAX_ACTIONS:
            return f"a plan has 1 to {MAX_ACTIONS} actions, and a sub-agent proposes none"
        for number, action in enumerate(actions, 1):
            tool = self.registry.get(action.tool)
            fault = find_fault(action, tool)
            for given in action.list_calls(tool) if tool and not fault else ():
                assert tool
                one = replace(call, tool=tool, arguments=given, effect=tool.effect_of(given))
                case = replace(self._collect_facts(turn, one, setting), plan=False, has_grant=True)
                decision, reason = self.judge(case)
                if case.is_protected or decision is DENY:
                    fault = "the path is protected" if case.is_protected else reason
            if fault:
                return f"action {number} ({action.tool}): {fault}. Nothing was asked."
        return ""

    def _collect_facts(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> PolicyInput:
        """What needs no look at the texts of the conversation."""
        tool, arguments, spec = call.tool, call.arguments, turn.spec
        protected = (*self.protected_paths, *spec.protected_paths)
        taint = find_taint(turn, setting)
        if call.effect not in READ_EFFECTS:
            is_own = taint is Taint.NONE and turn.is_owners
            own = () if is_own else (HEARTBEAT_FILE,)
            protected = (*protected, GIT_FOLDER, *own)
        paths = _list_paths(call) if tool.meta.source else call.paths
        speaks, approvals = spec.approvals or spec.tool_approvals, self.approvals.default
        if speaks or self.approvals.lines:
            closer = ToolApprovals(spec.approvals, spec.tool_approvals)
            approvals = self.approvals.find(tool.name, closer)
        if approvals == "never" and not (turn.is_owners and _is_owners_talk(setting)):
            approvals = "risk"
        return PolicyInput(
            effect=call.effect,
            taint=taint,
            # `is_safe` knows the config's protected paths only.
            safe=bool(
                not spec.protected_paths
                and turn.is_owners
                and tool.is_safe
                and tool.is_safe(arguments, self.rules.list_unreadable(turn.session, setting.root))
            ),
            is_protected=any(is_protected(path, protected) for path in paths),
            approvals="unanswered" if turn.assumes and approvals != "each" else approvals,
            ruling=self.rules.ruling(turn.session, setting.root, tool, arguments),
            askable=setting.can_ask,
            plan="proposed" if tool.name == PLAN_TOOL else turn.spec.plan_first,
        )


def explain_question(turn: Turn, call: AdmittedCall, content: Sequence[str], reason: str) -> str:
    """What a person is shown beside the arguments: what the tool has to say, what runs, why in the
    model's own words, where nobody else may speak through them, and why by our rules, where they
    say more than what the call does (B8).
    """
    preview = call.tool.preview
    lines = [preview(call.arguments) if preview else "", *content]
    if reason and reason not in REASONS.values():
        lines.append(f"asked because {reason}")
    speaks = turn.is_owners and turn.label is Label.TRUSTED
    if speaks and turn.reply and (said := shorten_line(turn.reply.text, SHOWN_CHARS)):
        lines.append(f"the assistant says: {said}")
    return "\n".join(filter(None, lines))
