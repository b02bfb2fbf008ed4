"""/approve /deny /grants: answers to questions, and what needs no question any more (A15, B8)."""

import re
from dataclasses import replace
from datetime import timedelta

from daemon.agent.system_questions import parse_system_question
from daemon.commands.registry import CommandCall
from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.core.ids import CODE
from daemon.core.rows import (
    EXACT_CALL,
    LASTING_ANSWERS,
    MAX_GRANT_TERM,
    MAX_GRANT_USES,
    OUTSIDE_SCOPE,
    ApprovalRow,
    GrantBounds,
    GrantRow,
    NotAllowedToAnswer,
    is_call,
)
from daemon.core.trust import Label, Person, Right, Role, has_right
from daemon.services.approvals import (
    ApprovalService,
    ShownApprovals,
    code_of,
    load_shown,
    make_visible,
    needs_full_view,
    ref_of,
    render_approval,
    render_list,
    save_shown,
)
from daemon.store.journal import Tx

NOTHING_WAITS = (
    "Nothing waits for an answer here. A question that stands in another chat is answered by its"
    " code: /approve CODE."
)
ASKED_AGAIN = (
    "The same will be asked again: [tools] approvals in the config says so. The permission is kept"
    " (/grants) and counts once that setting is another."
)
ANSWERS = {"once": Answer.ONCE, "session": Answer.SESSION, "always": Answer.ALWAYS}
UNIT_SECONDS = {"min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
APPROVE_ARGUMENTS = re.compile(
    rf"(show\b)?\s*(\d+|all\b|{CODE.pattern}\b)?\s*(\S*)\s*(.*)", re.IGNORECASE | re.DOTALL
)
BOUND = re.compile(
    r"(?:paths?\s+(?P<paths>\S+)|(?P<number>\d{1,6})\s*(?P<unit>[a-z]+)|(?:for|and|in|within|the|next)\b),?\s*",
    re.IGNORECASE,
)
APPROVE_USAGE = (
    "Use /approve, /approve session or /approve always; bounds may follow: 5 times, 30 minutes,"
    " paths reports/*. With several questions: /approve 2, /approve all, /approve show 2. /approve"
    " CODE answers the question with this code, in any chat of yours."
)


@value
class ApproveArguments:
    """`which`: a number of the list, a code, "all", or "" for the only one; `show` shows it instead
    of answering.
    """

    which: str = ""
    answer: Answer = Answer.ONCE
    bounds: GrantBounds = EXACT_CALL
    show: bool = False
    reason: str = ""


@value
class ApprovalCommands:
    """Each applies to the chat that it is given in."""

    service: ApprovalService

    async def approve(self, call: CommandCall) -> str:
        """Yes to the only question, to one of the list, or to all that were listed; `show` shows
        one whole.
        """
        given = parse_approve(call.argument)
        waiting, shown = await self._load(call, given.which)
        rows = _select(given.which, waiting, shown)
        if not rows:
            return await self._list(call, waiting, shown, given.which)
        if given.show:
            whole = shown.whole.union(map(ref_of, rows))
            await self._save(call, waiting, replace(shown, whole=whole))
            return "\n\n".join(render_approval(row, call.session.id, whole=True) for row in rows)
        unseen = [row for row in rows if needs_full_view(row) and ref_of(row) not in shown.whole]
        lines = [await self._answer(call, row, given) for row in rows if row not in unseen]
        for row in unseen:
            is_numbered = ref_of(row) in shown.listed and len(waiting) > 1
            number = f" {shown.listed.index(ref_of(row)) + 1}" if is_numbered else ""
            lines.append(
                f"Not answered yet: {_render_call(row)}\nIt is long: see it whole first by"
                f" /approve show{number}."
            )
        newer = [row for row in waiting if ref_of(row) not in shown.listed]
        if given.which == "all" and shown.listed and newer:
            lines.append(f"{len(newer)} more came since you looked: /approve lists them.")
        return "\n".join(lines)

    async def deny(self, call: CommandCall) -> str:
        """No, with an optional reason. /deny all needs no list, and is for those that wait, too."""
        waiting, shown = await self._load(call, call.argument.partition(" ")[0], denies=True)
        given = parse_deny(call.argument, len(shown.listed))
        rows = waiting if given.which == "all" else _select(given.which, waiting, shown)
        if not rows:
            return await self._list(call, waiting, shown, given.which)
        return "\n".join([await self._answer(call, row, given) for row in rows])

    async def grants(self, call: CommandCall) -> str:
        """/grants [revoke ID]"""
        verb, _, name = call.argument.partition(" ")
        if verb == "revoke":
            if not has_right(call.role, Right.ANSWER):
                return "You may not take permissions back."
            if await self.service.revoke_grant(name.strip()):
                return "Revoked: it needs a question again."
            return f"There is no permission {name}."
        lines = list(map(_render_grant, await self.service.list_grants(call.session.id)))
        head = "Allowed without a question (/grants revoke ID takes one back):"
        return "\n".join((head, *lines)) if lines else "None."

    async def _load(
        self, call: CommandCall, which: str, *, denies: bool = False
    ) -> tuple[list[ApprovalRow], ShownApprovals]:
        """What waits for an answer in the chat, and what of it this person was shown; where an
        owner names another question by its code, that too. Raises UsageError where nothing can be
        answered.
        """
        session, now = call.session, self.service.clock.now()
        if session.label is Label.UNTRUSTED:
            raise UsageError("Questions because of this conversation are not answered here.")

        def look(tx: Tx) -> tuple[list[ApprovalRow], ShownApprovals]:
            here = tx.list_asked_in(session.id, now)
            if denies and which.lower() == "all":  # before others, in whose place they would be put
                here = tx.list_approvals("waiting", session.id) + here
            if call.role is Role.OWNER and CODE.fullmatch(which):
                rows = tx.list_approvals("pending")
                meant = [row for row in rows if code_of(row) == which.lower() and row.expires > now]
                here += [row for row in meant if row not in here]
            return here, load_shown(tx, session.id, call.sender)

        waiting, shown = await self.service.store.read(look)
        if not waiting:
            raise UsageError(NOTHING_WAITS)
        return waiting, shown

    async def _list(
        self, call: CommandCall, waiting: list[ApprovalRow], shown: ShownApprovals, which: str
    ) -> str:
        await self._save(call, waiting, replace(shown, listed=tuple(map(ref_of, waiting))))
        head = f"No question that waits has the code {which}.\n" if CODE.fullmatch(which) else ""
        return head + render_list(waiting, call.session.id)

    async def _save(
        self, call: CommandCall, waiting: list[ApprovalRow], shown: ShownApprovals
    ) -> None:
        await self.service.store.write(
            lambda tx: save_shown(tx, call.session.id, call.sender, shown, waiting)
        )

    async def _answer(self, call: CommandCall, row: ApprovalRow, given: ApproveArguments) -> str:
        by = Person(call.sender, call.role)
        try:
            done = await self.service.answer(
                *ref_of(row), given.answer, by, given.reason, given.bounds
            )
        except (NotAllowedToAnswer, UsageError) as error:
            return str(error)
        if not done:
            return "That question has expired, was answered, or was asked anew."
        lines = [f"{'Denied' if given.answer is Answer.DENY else 'Approved'}: {_render_call(row)}"]
        asked_by = self.service.asked_by.find(row.tool)
        if isinstance(done, GrantRow) and asked_by in ("always", "each"):
            lines.append(ASKED_AGAIN)
        elif isinstance(done, GrantRow):
            lines.append(f"The same needs no question {_render_bounds(done)} (/grants).")
        return "\n".join(lines)


def _select(which: str, rows: list[ApprovalRow], shown: ShownApprovals) -> list[ApprovalRow]:
    """Empty where it is not clear which. A number is one of the list shown."""
    if CODE.fullmatch(which):
        meant = [row for row in rows if code_of(row) == which]
        return meant if len(meant) == 1 else []
    if not which or (len(rows) == 1 and not shown.listed and which in ("1", "all")):
        return rows if len(rows) == 1 else []
    chosen = shown.listed if which == "all" else shown.listed[int(which) - 1 : int(which)]
    return [row for row in rows if ref_of(row) in chosen]


def parse_approve(argument: str) -> ApproveArguments:
    """`[show] [N|all] [once|session|always] [BOUNDS]`. Raises UsageError."""
    match = APPROVE_ARGUMENTS.fullmatch(argument.strip())
    if match is None:
        raise UsageError(APPROVE_USAGE)
    show, which, scope, bounds = match.groups("")
    if show and scope:
        raise UsageError("Use /approve show 2, with a number of the list, or /approve show.")
    answer = ANSWERS.get(scope.lower() or "once")
    if answer is None:
        raise UsageError(APPROVE_USAGE)
    given = ApproveArguments(which.lower(), answer, _parse_bounds(bounds), bool(show))
    if given.bounds != EXACT_CALL and answer not in LASTING_ANSWERS:
        raise UsageError(f"A yes for once has no bounds. {APPROVE_USAGE}")
    return given


def parse_deny(argument: str, listed: int) -> ApproveArguments:
    """`[N|CODE|all] [reason]`; a number that is not on the list is part of the reason. A code is no
    word: one that no question has any more denies no other question.
    """
    which, _, reason = argument.partition(" ")
    is_number = which.isdecimal() and 1 <= int(which) <= listed
    if which.lower() != "all" and not CODE.fullmatch(which) and not is_number:
        which, reason = "", argument
    return ApproveArguments(which.lower(), Answer.DENY, reason=reason.strip())


def _parse_bounds(text: str) -> GrantBounds:
    bounds = EXACT_CALL
    while text:
        match = BOUND.match(text)
        if match is None:
            raise UsageError(f"Unknown bound {text.strip()!r}. {APPROVE_USAGE}")
        text = text[match.end() :]
        if match["paths"]:
            bounds = replace(bounds, paths=match["paths"])
        elif match["number"]:
            bounds = _parse_limit(bounds, int(match["number"]), match["unit"].lower())
    return bounds


def _parse_limit(bounds: GrantBounds, number: int, unit: str) -> GrantBounds:
    if unit in ("time", "times", "x"):
        if not 1 <= number <= MAX_GRANT_USES:
            raise UsageError(f"{number} times: expected 1 to {MAX_GRANT_USES} times.")
        return replace(bounds, uses=number)
    seconds = UNIT_SECONDS.get(unit.removesuffix("s"))
    if seconds is None:
        raise UsageError(f"Unknown bound {number} {unit!r}. {APPROVE_USAGE}")
    duration = timedelta(seconds=number * seconds)
    if not timedelta(0) < duration <= MAX_GRANT_TERM:
        raise UsageError(
            f"{number} {unit}: expected more than none, and at most {MAX_GRANT_TERM.days} days."
        )
    return replace(bounds, duration=duration)


def _render_bounds(row: GrantRow) -> str:
    """Such as "3 times more until 20 Feb 2026 09:00 UTC"."""
    uses = {None: "", 1: "once more"}.get(row.uses_left, f"{row.uses_left} times more")
    where = f"on {make_visible(row.paths)}" if row.paths else ""
    until = f"until {show_time(row.expires, '%d %b %Y %H:%M')}" if row.expires else ""
    return " ".join(filter(None, (uses, where, until)))


def _render_grant(row: GrantRow) -> str:
    what = f"any call on {make_visible(row.paths)}" if row.paths else make_visible(row.arguments)
    places = {OUTSIDE_SCOPE: "to what comes from outside", "": "everywhere"}
    where = places.get(row.session, "this chat")
    used = {0: "not used yet", 1: "used once"}.get(row.uses, f"used {row.uses} times")
    return f"- {row.id}: {make_visible(row.tool)} {what} ({where}; {_render_bounds(row)}; {used})"


def _render_call(row: ApprovalRow) -> str:
    if not is_call(row) and (asked := parse_system_question(row.tool, row.arguments)):
        return make_visible(asked.title)
    return f"{make_visible(row.tool)} {make_visible(row.arguments)}"
