"""What a turn is begun with: its agent's terms and limits, its kind of work, what memory has to say (A3, A4, E3).

What a turn may go by beside its own words: what was said where it was set to work (DESIGN 6, argument provenance).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace

from daemon.agent.config import AgentConfig
from daemon.agent.context.history import load_history, rebuild_turn
from daemon.agent.intent import classify_by_rules
from daemon.agent.spec.agent_spec import AgentSpec
from daemon.agent.spec.registry import AgentRegistry
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.events import Limits, MemoryHit, UserSaid
from daemon.core.journal import ReadTx
from daemon.core.messages import MessageRole, score_importance
from daemon.core.provenance import SourcedText, collect_texts, make_person_text
from daemon.core.rows import LOOP_CHANNEL, ChildRow, InboxRow, SessionRow
from daemon.core.trust import Label
from daemon.core.turn import Turn
from daemon.core.turn_spec import Intent, TurnSpec

AGENT = "agent"
COMPOSED_CHANNELS = (AGENT, LOOP_CHANNEL)
SpecSettings = tuple[AgentSpec, AgentConfig, TurnSpec, Limits]


@value
class TurnSetup:
    """Fixed for the whole turn. `fault`: the agent cannot work at all, and why."""

    spec: TurnSpec
    limits: Limits
    intent: Intent | None = None
    memories: tuple[MemoryHit, ...] = ()
    error: str = ""

    def with_reflection(self, reflection: MemoryHit | None) -> "TurnSetup":
        """With what was thought about the turn before, unless this message asks for no work (E10)."""
        if reflection is None or self.intent is Intent.TRIVIAL:
            return self
        return replace(self, memories=(reflection, *self.memories))


@value
class TurnPreparer:
    """Looks up what the turn of a message needs. A trivial message gets the minimal path: nothing is looked for in memory."""

    specs: AgentRegistry
    defaults: Callable[[], AgentConfig]
    recall: Callable[[str], Awaitable[Sequence[MemoryHit]]]
    _cached: dict[str, SpecSettings] = field(default_factory=dict)

    async def __call__(
        self,
        session: SessionRow,
        row: InboxRow,
        child: ChildRow | None,
        above: TurnSpec | None = None,
        files: str = "",
    ) -> TurnSetup:
        """The brief; a wrong spec is a fault that the user is told, not an error. `above`: the terms of who set it to work;
        `files`: what came of those that the message brought, and that it may well be about.
        """
        try:
            spec = self.specs.get(child.agent if child else session.agent)
        except ConfigError as error:
            return TurnSetup(TurnSpec(agent=session.agent), Limits(), error=str(error))
        terms, limits = self._settings_of(spec)
        if child:
            terms, limits = (
                replace(
                    _inherit_approvals(above or TurnSpec(), terms),
                    depth=child.depth,
                    on_budget="stop",
                ),
                child.limits,
            )
        intent = None if files else classify_by_rules(row.body)
        memories = () if intent is Intent.TRIVIAL else tuple(await self.recall(row.body))
        return TurnSetup(terms, limits, intent, memories)

    def _settings_of(self, spec: AgentSpec) -> tuple[TurnSpec, Limits]:
        """Worked out once for as long as neither its file nor the config changes."""
        defaults, made = self.defaults(), self._cached.get(spec.name)
        if made is None or made[0] is not spec or made[1] is not defaults:
            made = self._cached[spec.name] = (
                spec,
                defaults,
                spec.turn_spec(defaults),
                spec.limits(defaults),
            )
        return made[2:]


def _inherit_approvals(above: TurnSpec, terms: TurnSpec) -> TurnSpec:
    """What an author wants to be asked about holds for all that the agent sets to work, whomever its model chooses (B8)."""
    always = "always" in (above.approvals, terms.approvals)
    guarded = tuple(dict.fromkeys((*above.protected_paths, *terms.protected_paths)))
    return replace(
        terms, approvals="always" if always else terms.approvals, protected_paths=guarded
    )


def first_event(row: InboxRow, brief: TurnSetup, before: Label, files: str = "") -> UserSaid:
    """The first event of a turn. `before` is the label of what is shown of earlier ones, `files` what came of the message's."""
    return UserSaid(
        row.body, row.sender, row.id, row.label, score_importance(MessageRole.USER, row.body), brief.limits, brief.memories, brief.spec,
        brief.intent, before, composed=row.channel in COMPOSED_CHANNELS, role=row.role, files=files,
    )  # fmt: skip


def serves_another(session: SessionRow, turn: Turn) -> bool:
    """Somebody else's words stand behind it: it works for another turn, or for a loop."""
    return (
        bool(turn.parent)
        or session.channel == LOOP_CHANNEL
        or session.id.startswith(f"{LOOP_CHANNEL}:")
    )


def load_inherited_sources(tx: ReadTx, session: SessionRow, turn: Turn) -> tuple[SourcedText, ...]:
    """What was said to those who set it to work, oldest first: the agents above it, and the person who began it all."""
    heard: tuple[SourcedText, ...] = ()
    above, where = turn.parent, session
    while above and (row := tx.get_turn(above)):
        where = tx.get_session(row.session) or where
        heard = (*collect_texts(rebuild_turn(row.id, row.session, tx.list_events(row.id))), *heard)
        above = row.parent
    before = load_history(tx, where).texts if turn.parent and not above else ()
    return (*_loop_task(tx, where), *before, *heard)


def _loop_task(tx: ReadTx, session: SessionRow) -> tuple[SourcedText, ...]:
    """The task as the person gave it; what attempts have learned is the model's."""
    kind, _, name = session.id.partition(":")
    loop = tx.get_loop(name) if kind == LOOP_CHANNEL else None
    if loop is None:
        return ()
    root = tx.get_session(loop.root)
    return (make_person_text(loop.message, loop.role, root.label if root else Label.UNTRUSTED),)
