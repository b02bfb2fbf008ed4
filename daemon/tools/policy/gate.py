"""The gate at work: what is known of a call is put together, and `judge` decides (DESIGN 6)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from daemon import addons as plugins
from daemon.core import value
from daemon.core.provenance import TrustContext, collect_texts
from daemon.core.trust import Decision, Label
from daemon.core.turn import Turn
from daemon.tools.arguments import args_hash, is_protected, path_arguments
from daemon.tools.base import GrantStore, Tool, ToolMeta, ToolSource
from daemon.tools.calls import AdmittedCall
from daemon.tools.policy.grants import grantable_paths
from daemon.tools.policy.table import (
    STRICTNESS,
    Approvals,
    Judge,
    PolicyInput,
    Provenance,
    TableRule,
    Verdict,
    judge,
    with_grant,
)

if TYPE_CHECKING:
    from daemon.tools.policy.provenance import Evidence


class RuleBook(Protocol):
    """What the owner has pinned down, outside every history (F5)."""

    def ruling(
        self, session: str, root: str, tool: Tool, arguments: Mapping[str, object]
    ) -> Verdict | None:
        """What the strictest rule says to this call, and which that is; None when none is about it."""
        ...


class NoRules:
    """Nothing is pinned down."""

    def ruling(
        self, session: str, root: str, tool: Tool, arguments: Mapping[str, object]
    ) -> Verdict | None:
        """None is about it."""
        return None


def no_contacts() -> Sequence[str]:
    """No contacts."""
    return ()


@value(kw_only=True)
class PolicyGate:
    """Looks at calls. `contacts` gives the addresses of people whom the owner has registered."""

    toolbox: ToolSource
    grants: GrantStore
    rules: RuleBook
    approvals: Approvals = "risk"
    protected_paths: tuple[str, ...] = ()
    contacts: Callable[[], Sequence[str]] = no_contacts
    judge: Judge = judge

    async def decide(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> Verdict:
        """What the gate says to a call; a permission that it needed is used up by one."""
        case = self._policy_input(turn, call, setting)
        decision, reason = self.judge(case)
        if decision is Decision.ALLOW:
            return decision, reason
        granted = with_grant(case)
        if self.judge(granted)[0] is Decision.ALLOW and await self._use_grant(turn, call, setting):
            return self.judge(granted)
        if decision is Decision.ASK and call.tool.meta.warning:
            reason = f"{reason}; {call.tool.meta.warning}"
        return decision, reason

    def recheck(
        self, turn: Turn, call: AdmittedCall, setting: TrustContext, known: Decision
    ) -> Verdict | None:
        """To a call that was looked at before: what the owner's rules and settings say now, where that is stricter than what was
        `known`; None where it is not. What the turn has read since then does not count: the call was written before.
        """
        verdict = self.judge(with_grant(self._policy_input(turn, call, setting)))
        return verdict if STRICTNESS[verdict[0]] > STRICTNESS[known] else None

    def turn_label(self, turn: Turn, setting: TrustContext) -> Label:
        """What a turn has seen: its session, its texts, and what strangers say of the tools that the model was shown (A22)."""
        return turn.label.join_with(setting.session_label)

    def decide_unknown(self, turn: Turn, setting: TrustContext) -> Verdict:
        """What it says to a tool that does not exist."""
        return self.judge(
            PolicyInput(meta=None, label=turn.label, session_label=setting.session_label)
        )

    def _policy_input(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> PolicyInput:
        meta = call.tool.meta
        guarded = (*self.protected_paths, *turn.spec.protected_paths)
        case = PolicyInput(
            meta=meta,
            label=self.turn_label(turn, setting),
            session_label=setting.session_label,
            safe=call.tool.is_safe(call.arguments)
            and not turn.spec.protected_paths,  # it knows the config's alone
            is_protected=any(
                is_protected(path, guarded) for path in path_arguments(call.arguments, meta.paths)
            ),
            approvals="always" if "always" in (self.approvals, turn.spec.approvals) else "risk",
            ruling=self.rules.ruling(turn.session, setting.root, call.tool, call.arguments),
            askable=setting.can_ask,
        )
        if case.rule not in (TableRule.IF_OWNED, TableRule.IF_READ):
            return case
        return replace(case, provenance=self._check_provenance(turn, call, setting))

    def _check_provenance(
        self, turn: Turn, call: AdmittedCall, setting: TrustContext
    ) -> Provenance:
        """Imported when it is first needed: most conversations only look at their own."""
        make = cast("type[Evidence]", plugins.load_addon("provenance", "grounds"))
        grounds = make((*setting.earlier, *collect_texts(turn)), self._find_meta, self.contacts())
        return grounds.check(call.tool, call.arguments)

    def _find_meta(self, name: str) -> ToolMeta | None:
        tool = self.toolbox.get(name)
        return tool.meta if tool else None

    async def _use_grant(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> bool:
        """The reply is on disk first: a call that a crash forgets would have used up a permission for nothing (K7)."""
        name = call.tool.name
        await turn.commit()
        return await self.grants.use_grant(
            turn.session, name, args_hash(name, call.arguments), paths=grantable_paths(call.tool.meta, call.arguments),
            untrusted=setting.session_label is Label.UNTRUSTED, call=f"{turn.id}/{call.state.call_id}",
        )  # fmt: skip
