"""What a turn is begun with: its agent's terms and limits, its kind of work, what memory has to say (A3, A4, E3)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from daemon.agent.config import AgentConfig
from daemon.agent.intent import by_rules
from daemon.agent.spec import AgentSpec
from daemon.agent.specs.registry import Specs
from daemon.core.errors import ConfigError
from daemon.core.events import Limits, MemoryHit, UserSaid
from daemon.core.importance import importance
from daemon.core.label import Label
from daemon.core.loops import CHANNEL
from daemon.core.messages import Role
from daemon.core.rows import ChildRow, InboxRow, SessionRow
from daemon.core.terms import Intent, Terms

AGENT = "agent"
COMPOSING = (AGENT, CHANNEL)
Made = tuple[AgentSpec, AgentConfig, Terms, Limits]


@dataclass(frozen=True, slots=True)
class Brief:
    """Fixed for the whole turn. `fault`: the agent cannot work at all, and why."""

    terms: Terms
    limits: Limits
    intent: Intent | None = None
    memories: tuple[MemoryHit, ...] = ()
    fault: str = ""

    def after(self, reflection: MemoryHit | None) -> "Brief":
        """With what was thought about the turn before, unless this message asks for no work (E10)."""
        if reflection is None or self.intent is Intent.TRIVIAL:
            return self
        return replace(self, memories=(reflection, *self.memories))


@dataclass(frozen=True, slots=True)
class Briefing:
    """Looks up what the turn of a message needs. A trivial message gets the minimal path: nothing is looked for in memory."""

    specs: Specs
    defaults: Callable[[], AgentConfig]
    recall: Callable[[str], Awaitable[Sequence[MemoryHit]]]
    _made: dict[str, Made] = field(default_factory=dict)

    async def __call__(
        self, session: SessionRow, row: InboxRow, child: ChildRow | None, above: Terms | None = None, files: str = ""
    ) -> Brief:
        """The brief; a wrong spec is a fault that the user is told, not an error. `above`: the terms of who set it to work;
        `files`: what came of those that the message brought, and that it may well be about.
        """
        try:
            spec = self.specs.get(child.agent if child else session.agent)
        except ConfigError as error:
            return Brief(Terms(agent=session.agent), Limits(), fault=str(error))
        terms, limits = self._of(spec)
        if child:
            terms, limits = replace(_under(above or Terms(), terms), depth=child.depth, on_budget="stop"), child.limits
        intent = None if files else by_rules(row.body)
        memories = () if intent is Intent.TRIVIAL else tuple(await self.recall(row.body))
        return Brief(terms, limits, intent, memories)

    def _of(self, spec: AgentSpec) -> tuple[Terms, Limits]:
        """Worked out once for as long as neither its file nor the config changes."""
        defaults, made = self.defaults(), self._made.get(spec.name)
        if made is None or made[0] is not spec or made[1] is not defaults:
            made = self._made[spec.name] = spec, defaults, spec.terms(defaults), spec.limits(defaults)
        return made[2:]


def _under(above: Terms, terms: Terms) -> Terms:
    """What an author wants to be asked about holds for all that the agent sets to work, whomever its model chooses (B8)."""
    always = "always" in (above.approvals, terms.approvals)
    guarded = tuple(dict.fromkeys((*above.protected_paths, *terms.protected_paths)))
    return replace(terms, approvals="always" if always else terms.approvals, protected_paths=guarded)


def opening_of(row: InboxRow, brief: Brief, before: Label, files: str = "") -> UserSaid:
    """The first event of a turn. `before` is the label of what is shown of earlier ones, `files` what came of the message's."""
    return UserSaid(
        row.body, row.sender, row.id, row.label, importance(Role.USER, row.body), brief.limits, brief.memories, brief.terms,
        brief.intent, before, composed=row.channel in COMPOSING, role=row.role, files=files,
    )  # fmt: skip
