"""The gate at work: what is known of a call is put together, and `judge` decides (DESIGN 6)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, cast

from daemon import plugins
from daemon.core.label import Decision, Label
from daemon.core.sources import Setting, said_in
from daemon.core.turn import Turn
from daemon.tools.arguments import args_hash, is_protected, paths_in
from daemon.tools.base import Grants, Tool, Toolbox, ToolMeta
from daemon.tools.batches import Ready
from daemon.tools.grants import grantable_paths
from daemon.tools.policy import STRICTNESS, Approvals, Case, Cell, Judge, Verdict, judge, with_grant
from daemon.tools.provenance.standing import Standing

if TYPE_CHECKING:
    from daemon.tools.provenance.grounds import Grounds


class Rules(Protocol):
    """What the owner has pinned down, outside every history (F5)."""

    def ruling(self, session: str, root: str, tool: Tool, arguments: Mapping[str, object]) -> Verdict | None:
        """What the strictest rule says to this call, and which that is; None when none is about it."""
        ...


class NoRules:
    """Nothing is pinned down."""

    def ruling(self, session: str, root: str, tool: Tool, arguments: Mapping[str, object]) -> Verdict | None:
        """None is about it."""
        return None


def nobody() -> Sequence[str]:
    """No contacts."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Looks at calls. `contacts` gives the addresses of people whom the owner has registered."""

    toolbox: Toolbox
    grants: Grants
    rules: Rules
    approvals: Approvals = "risk"
    protected_paths: tuple[str, ...] = ()
    contacts: Callable[[], Sequence[str]] = nobody
    judge: Judge = judge

    async def look(self, turn: Turn, call: Ready, setting: Setting) -> Verdict:
        """What the gate says to a call; a permission that it needed is used up by one."""
        case = self._case(turn, call, setting)
        decision, reason = self.judge(case)
        if decision is Decision.ALLOW:
            return decision, reason
        granted = with_grant(case)
        if self.judge(granted)[0] is Decision.ALLOW and await self._granted(turn, call, setting):
            return self.judge(granted)
        if decision is Decision.ASK and call.tool.meta.warning:
            reason = f"{reason}; {call.tool.meta.warning}"
        return decision, reason

    def since(self, turn: Turn, call: Ready, setting: Setting, known: Decision) -> Verdict | None:
        """To a call that was looked at before: what the owner's rules and settings say now, where that is stricter than what was
        `known`; None where it is not. What the turn has read since then does not count: the call was written before.
        """
        verdict = self.judge(with_grant(self._case(turn, call, setting)))
        return verdict if STRICTNESS[verdict[0]] > STRICTNESS[known] else None

    def label(self, turn: Turn, setting: Setting) -> Label:
        """What a turn has seen: its session, its texts, and what strangers say of the tools that the model was shown (A22)."""
        return turn.label.joined(setting.session_label)

    def unknown(self, turn: Turn, setting: Setting) -> Verdict:
        """What it says to a tool that does not exist."""
        return self.judge(Case(meta=None, label=turn.label, session_label=setting.session_label))

    def _case(self, turn: Turn, call: Ready, setting: Setting) -> Case:
        meta = call.tool.meta
        guarded = (*self.protected_paths, *turn.terms.protected_paths)
        case = Case(
            meta=meta,
            label=self.label(turn, setting),
            session_label=setting.session_label,
            safe=call.tool.is_safe(call.arguments) and not turn.terms.protected_paths,  # it knows the config's alone
            protected=any(is_protected(path, guarded) for path in paths_in(call.arguments, meta.paths)),
            approvals="always" if "always" in (self.approvals, turn.terms.approvals) else "risk",
            ruling=self.rules.ruling(turn.session, setting.root, call.tool, call.arguments),
            askable=setting.askable,
        )
        if case.cell not in (Cell.IF_OWNED, Cell.IF_READ):
            return case
        return replace(case, standing=self._standing(turn, call, setting))

    def _standing(self, turn: Turn, call: Ready, setting: Setting) -> Standing:
        """Imported when it is first needed: most conversations only look at their own."""
        make = cast("type[Grounds]", plugins.load("provenance", "grounds"))
        grounds = make((*setting.earlier, *said_in(turn)), self._known, self.contacts())
        return grounds.standing(call.tool, call.arguments)

    def _known(self, name: str) -> ToolMeta | None:
        tool = self.toolbox.get(name)
        return tool.meta if tool else None

    async def _granted(self, turn: Turn, call: Ready, setting: Setting) -> bool:
        """The reply is on disk first: a call that a crash forgets would have used up a permission for nothing (B5 #7)."""
        name = call.tool.name
        await turn.commit()
        return await self.grants.granted(
            turn.session, name, args_hash(name, call.arguments), paths=grantable_paths(call.tool.meta, call.arguments),
            untrusted=setting.session_label is Label.UNTRUSTED, call=f"{turn.id}/{call.state.call_id}",
        )  # fmt: skip
