"""The gate that every tool call passes: it collects the facts, and `judge` decides."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from daemon.core import value
from daemon.core.provenance import TrustContext, collect_texts
from daemon.core.trust import Decision, Label
from daemon.core.turn import Turn
from daemon.tools.arguments import args_hash, is_protected, path_arguments
from daemon.tools.base import GrantStore
from daemon.tools.calls import AdmittedCall
from daemon.tools.policy.grants import grantable_paths
from daemon.tools.policy.rules import RuleSet
from daemon.tools.policy.table import (
    STRICTNESS,
    Approvals,
    Judge,
    PolicyInput,
    TableRule,
    Verdict,
    judge,
)
from daemon.tools.registry import ToolRegistry


@value(kw_only=True)
class PolicyGate:
    """`contacts` gives the addresses of people whom the owner has registered."""

    registry: ToolRegistry
    grants: GrantStore
    rules: RuleSet
    approvals: Approvals = "risk"
    protected_paths: tuple[str, ...] = ()
    contacts: Callable[[], Sequence[str]] = tuple
    judge: Judge = judge

    async def decide(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> Verdict | None:
        """The verdict on a call; a grant that it needs is used up by one.

        None for a call judged before, unless the owner's rules and settings are stricter by now.
        What the turn has read since then does not count: the call was written before.
        """
        case = self._policy_input(turn, call, setting)
        granted = replace(case, has_grant=True)
        if earlier := call.state.judged:
            verdict = self.judge(granted)
            return verdict if STRICTNESS[verdict[0]] > STRICTNESS[earlier.decision] else None
        decision, reason = self.judge(case)
        if decision is Decision.ALLOW:
            return decision, reason
        verdict = self.judge(granted)
        if verdict[0] is Decision.ALLOW and await self._use_grant(turn, call, setting):
            return verdict
        if decision is Decision.ASK and call.tool.meta.warning:
            reason = f"{reason}; {call.tool.meta.warning}"
        return decision, reason

    def decide_unknown(self, turn: Turn, setting: TrustContext) -> Verdict:
        """The verdict on a tool that does not exist."""
        return self.judge(
            PolicyInput(meta=None, label=turn.label, session_label=setting.session_label)
        )

    def _policy_input(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> PolicyInput:
        tool, arguments, spec = call.tool, call.arguments, turn.spec
        protected = (*self.protected_paths, *spec.protected_paths)
        case = PolicyInput(
            meta=tool.meta,
            label=turn.label.join_with(setting.session_label),
            session_label=setting.session_label,
            safe=not spec.protected_paths and tool.is_safe(arguments),  # knows the config's only
            is_protected=any(
                is_protected(path, protected) for path in path_arguments(arguments, tool.meta.paths)
            ),
            approvals="always" if "always" in (self.approvals, spec.approvals) else "risk",
            ruling=self.rules.ruling(turn.session, setting.root, tool, arguments),
            askable=setting.can_ask,
        )
        if case.rule not in (TableRule.IF_OWNED, TableRule.IF_READ):
            return case
        from daemon.tools.policy.provenance import Evidence  # lazy: rarely used

        texts = (*setting.earlier, *collect_texts(turn))
        evidence = Evidence(texts, self.registry, self.contacts())
        return replace(case, provenance=evidence.check(tool, arguments))

    async def _use_grant(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> bool:
        """The reply is on disk first: a call lost in a crash must not use up a grant (K7)."""
        name = call.tool.name
        await turn.commit()
        return await self.grants.use_grant(
            turn.session,
            name,
            args_hash(name, call.arguments),
            paths=grantable_paths(call.tool.meta, call.arguments),
            untrusted=setting.session_label is Label.UNTRUSTED,
            call=f"{turn.id}/{call.state.call_id}",
        )
