"""What a turn begins with: its agent's settings and limits, intent, memories, and inherited
sources (A3, A4, E3).
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from daemon.agent.context.history import History, load_history, rebuild_turn
from daemon.agent.pre_call import classify_by_rules
from daemon.agent.spec.registry import AgentRegistry
from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.errors import ConfigError
from daemon.core.events import Limits, MemoryHit, UserSaid
from daemon.core.messages import (
    MAIL,
    FetchedFiles,
    MessageRole,
    describe_message,
    score_importance,
)
from daemon.core.provenance import SourcedText, collect_texts, iter_person_texts
from daemon.core.quoted import find_quoted
from daemon.core.rows import GOAL_CHANNEL, LOOP_CHANNEL, ChildRow, InboxRow, SessionRow
from daemon.core.trust import OWNER_NAME, Label, join_sources
from daemon.core.turn import Turn
from daemon.core.turn_spec import PLAN_WORD, Intent, TurnSpec
from daemon.store.journal import Tx
from daemon.store.tables.messages import SettledRow
from daemon.tools.policy.tool_approvals import inherit_approvals
from daemon.tools.workspace.inbox_folder import attachments_from_json

AGENT = "agent"

REFUSED = re.compile(r"does not take the mail: ([245]\d\d)\b")
UNCONFIRMED = "not confirmed as sent; the owner was told why"
UNREAD = "not delivered, as far as is known: nobody may have read it"
OUTCOMES = "[Since your turn before:\n{lines}]"

UNSURE = "on its way to them, perhaps not shown yet"
WHY_NO_WORDS = {
    False: "(it has read text from outside, so its words are not here)",
    True: "(somebody else has set it, so its words are not here)",
}
BRACKETS = str.maketrans("[]［］", "()()")

SHOWN_TOLD, MOST_SHOWN, MOST_PLAN_AGE = 800, 5, 5
NO_FILES = FetchedFiles()


@value
class TurnPreparer:
    """Makes the first event of a turn. A trivial message needs no memories."""

    agents: AgentRegistry
    recall: Callable[[str, str, Callable[[str], bool]], Awaitable[Sequence[MemoryHit]]]

    async def first_event(
        self,
        session: SessionRow,
        row: InboxRow,
        history: History,
        files: FetchedFiles = NO_FILES,
        child: ChildRow | None = None,
        parent_spec: TurnSpec | None = None,
        settled: Sequence[SettledRow] = (),
    ) -> tuple[UserSaid, str]:
        """With the error when the agent cannot be used. `child` and `parent_spec` are set for a
        sub-agent; `files` tells of the message's files, which it may well be about; `settled` are
        messages to others that have left, or will not, and what was shown in this chat meanwhile.
        """
        error, intent, memories = "", None, ()
        try:
            agent = self.agents.find(child.agent if child else session.agent)
            spec, limits = agent.terms, agent.limits
        except ConfigError as exc:
            spec, limits, error = TurnSpec(agent=session.agent), Limits(), str(exc)
        else:
            if child and parent_spec:
                spec, limits = _inherit(spec, parent_spec, child.depth), child.limits
            elif row.body.startswith(PLAN_WORD):
                spec = replace(spec, plan_first=True)
            intent = None if files.text else classify_by_rules(row.body)
            if intent is not Intent.TRIVIAL and row.role == OWNER_NAME:
                memories = tuple(await self.recall(row.body, session.id, history.window.shows))
        if history.reflection and intent is not Intent.TRIVIAL:
            memories = (history.reflection, *memories)
        outcomes, told = describe_outcomes(settled, row.role) if settled else ("", ())
        event = UserSaid(
            row.body,
            row.sender,
            row.id,
            row.label,
            score_importance(MessageRole.USER, row.body),
            limits,
            memories,
            spec,
            intent,
            history.label,
            composed=row.composed,
            role=row.role,
            files=files.text,
            quoted=row.quoted,
            outcomes=outcomes,
            settled=tuple(f"{one.row.turn}/{one.row.part}" for one in settled),
            private=join_sources((history.private, row.private, *(one.private for one in told))),
            pictures=files.pictures,
            heard=files.heard,
            named=files.says
            or (
                bool(row.attachments)
                and any(one.named for one in attachments_from_json(row.attachments))
            ),
        )
        return event, error


def takes_up_plan(session: SessionRow, said: UserSaid, history: History) -> bool:
    """The turn begins with what was left of the plan before it: a goal's always, else where there
    is something to do, until the model has left it alone for a while (E3).
    """
    if session.channel == GOAL_CHANNEL:
        return True
    left = any(one.state != "done" for one in history.plan)
    return left and said.intent is not Intent.TRIVIAL and history.plan_age < MOST_PLAN_AGE


def _inherit(spec: TurnSpec, parent: TurnSpec, depth: int) -> TurnSpec:
    """The approvals of its parent's author apply to a sub-agent, too (B8)."""
    approvals = inherit_approvals(spec, parent)
    return replace(
        spec,
        approvals=approvals.default,
        tool_approvals=approvals.lines,
        protected_paths=tuple(dict.fromkeys((*parent.protected_paths, *spec.protected_paths))),
        depth=depth,
        plan_first=parent.plan_first,
        on_budget="stop",
    )


def load_news(tx: Tx, row: InboxRow) -> tuple[list[SettledRow], str]:
    """What its session's model was not told yet, and the zone of a sender who is not the owner."""
    zone = "" if row.role == OWNER_NAME else tx.get_zone(row.sender)
    return tx.list_outcomes(row.session), zone


def load_inherited_sources(
    tx: Tx, session: SessionRow, turn: Turn
) -> tuple[tuple[SourcedText, ...], tuple[SourcedText, ...], str]:
    """The texts behind a turn that works for another one, or for a loop, oldest first: of the
    conversation before, of the work that the person began, down to the turns above it; and the
    first of those turns.
    """
    texts: tuple[SourcedText, ...] = ()
    parent, where, root = turn.parent, session, turn.id
    while parent and (row := tx.get_turn(parent)):
        root = parent
        where = tx.get_session(row.session) or where
        texts = (*collect_texts(rebuild_turn(row.id, row.session, tx.list_events(row.id))), *texts)
        parent = row.parent
    earlier = load_history(tx, where).texts if turn.parent and not parent else ()
    kind, _, name = where.id.partition(":")
    loop = tx.get_loop(name) if kind == LOOP_CHANNEL else None
    if loop is None:
        return earlier, texts, root
    chat = tx.get_session(
        loop.root
    )  # the task as the person gave it; what attempts learned is the model's
    label = chat.label if chat else Label.UNTRUSTED
    task = iter_person_texts(loop.message, loop.role, label, find_quoted(loop.message))
    return earlier, (*task, *texts), root


def _shows_words(one: SettledRow, role: str) -> bool:
    """Its words are for this conversation's model. In a message of somebody else they would count
    as theirs; only the owner's count as less in it.
    """
    return one.is_trusted and one.role in (OWNER_NAME, role)


def _keep_in_line(text: str) -> str:
    """Nothing in it ends its line, or what it stands in."""
    return " ".join(text.split()).translate(BRACKETS)


def _describe_shown(one: SettledRow, *, with_words: bool) -> str:
    """[event github], and what it said."""
    row, words = one.row, WHY_NO_WORDS[one.is_trusted]
    head = f"[{one.source}] "
    if with_words:
        heads = (head, f"[{one.source} failed] ")
        head = next((begin for begin in heads if row.body.startswith(begin)), "")
        words = _keep_in_line(row.body.removeprefix(head))
        words = words if len(words) <= SHOWN_TOLD else f"{words[:SHOWN_TOLD]}…"
    when = f"shown to them at {show_time(one.shown_at)}" if row.state == "sent" else UNSURE
    return f"- {when}: {head}{words}"


def describe_outcomes(
    settled: Sequence[SettledRow], role: str
) -> tuple[str, tuple[SettledRow, ...]]:
    """What the model is told of the end of messages to others, of answers that failed, and of the
    last that was shown in this chat by work that began by itself; and those whose words are among
    it. `role`: of the message that they stand beside. What a stranger may have written is not
    there: the subject of other turns, the words of a server, what such work has read.
    """
    ends = {"sent": "sent", "withdrawn": "withdrawn by the user; it was not sent"}
    shown = [one for one in settled if one.row.kind == "notice"]
    lines, told = list[str](), list[SettledRow]()
    for one in settled:
        row, with_words = one.row, _shows_words(one, role)
        if row.kind == "notice" and one not in shown[-MOST_SHOWN:]:
            continue
        if with_words and row.kind in ("notice", MAIL):
            told.append(one)
        if row.kind == "notice":
            lines.append(_describe_shown(one, with_words=with_words))
            continue
        code = REFUSED.search(row.error)
        refused = f"refused ({code[1]}); it was not sent" if code else UNCONFIRMED
        what = _keep_in_line(describe_message(row, with_subject=with_words))
        refused = refused if row.kind == MAIL else UNREAD
        lines.append(f"- {what}: {ends.get(row.state, refused)}")
    if len(shown) > MOST_SHOWN:
        lines.append(f"- before these, {len(shown) - MOST_SHOWN} more were shown to them")
    return OUTCOMES.format(lines="\n".join(lines)), tuple(told)
