"""/approve /deny /grants: answers to questions, and what needs no question any more (A15, B8)."""

import re
from dataclasses import replace
from datetime import timedelta

from daemon.commands.registry import CommandCall, Handlers
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import UsageError
from daemon.core.events import Answer
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
)
from daemon.core.trust import Label, Person, Right, has_right
from daemon.services.approvals import (
    ApprovalService,
    ShownApprovals,
    load_shown,
    make_visible,
    needs_full_view,
    ref_of,
    render_approval,
    render_list,
    save_shown,
)
from daemon.store.journal import Store, Tx

ANSWERS = {"once": Answer.ONCE, "session": Answer.SESSION, "always": Answer.ALWAYS}
UNIT_SECONDS = {"min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
APPROVE_ARGUMENTS = re.compile(
    r"(show\b)?\s*(\d+|all\b)?\s*(\S*)\s*(.*)", re.IGNORECASE | re.DOTALL
)
BOUND = re.compile(
    r"(?:paths?\s+(?P<paths>\S+)|(?P<number>\d{1,6})\s*(?P<unit>[a-z]+)|(?:for|and|in|within|the|next)\b),?\s*",
    re.IGNORECASE,
)
APPROVE_USAGE = (
    "Use /approve, /approve session or /approve always; bounds may follow: 5 times, 30 minutes,"
    " paths reports/*. With several questions: /approve 2, /approve all, /approve show 2."
)
NOTHING_PENDING = "Nothing waits for an answer here."
ANSWER_ELSEWHERE = "Questions because of this conversation are not answered here."
QUESTION_GONE = "That question has expired, or was answered."


class BadApproval(UsageError):
    """The command was not understood; nothing was answered."""


@value
class ApproveArguments:
    """`which`: a number of the list, "all", or "" for the only one; `show` shows it instead of
    answering.
    """

    which: str = ""
    answer: Answer = Answer.ONCE
    bounds: GrantBounds = EXACT_CALL
    show: bool = False


@value
class PendingApprovals:
    """What waits for an answer in a chat, and what of it this person was shown."""

    rows: list[ApprovalRow]
    shown: ShownApprovals

    def select(self, which: str) -> list[ApprovalRow]:
        """Empty where it is not clear which. A number is one of the list shown."""
        if not which or (len(self.rows) == 1 and not self.shown.listed and which in ("1", "all")):
            return self.rows if len(self.rows) == 1 else []
        if which == "all":
            return [row for row in self.rows if ref_of(row) in self.shown.listed]
        numbered = dict(enumerate(self.shown.listed, 1)).get(int(which))
        return [row for row in self.rows if ref_of(row) == numbered]


@value
class ApprovalCommands:
    """Each applies to the chat that it is given in."""

    store: Store
    clock: Clock
    approvals: ApprovalService

    def handlers(self) -> Handlers:
        """By command."""
        return {"approve": self.approve, "deny": self.deny, "grants": self.list_or_revoke}

    async def approve(self, call: CommandCall) -> str:
        """Yes to the only question, to one of the list, or to all that were listed; `show` shows
        one whole.
        """
        try:
            given = parse_approve(call.argument)
        except BadApproval as error:
            return str(error)
        pending = await self._load_pending(call)
        if isinstance(pending, str):
            return pending
        rows, shown = pending.select(given.which), pending.shown
        if not rows:
            return await self._reply_list(call, pending)
        if given.show:
            await self._save_shown(call, pending, shown.add_whole(rows))
            return "\n\n".join(render_approval(row, call.session.id, whole=True) for row in rows)
        unseen = [row for row in rows if needs_full_view(row) and ref_of(row) not in shown.whole]
        lines = [await self._answer(call, row, given) for row in rows if row not in unseen]
        for row in unseen:
            numbered = ref_of(row) in shown.listed and len(pending.rows) > 1
            number = f" {shown.listed.index(ref_of(row)) + 1}" if numbered else ""
            lines.append(
                f"Not answered yet: {_render_call(row)}\nIt is long: see it whole first by"
                f" /approve show{number}."
            )
        newer = [row for row in pending.rows if ref_of(row) not in shown.listed]
        if given.which == "all" and shown.listed and newer:
            lines.append(f"{len(newer)} more came since you looked: /approve lists them.")
        return "\n".join(lines)

    async def deny(self, call: CommandCall) -> str:
        """No, with an optional reason. /deny all needs no list."""
        pending = await self._load_pending(call)
        if isinstance(pending, str):
            return pending
        which, reason = parse_deny(call.argument, len(pending.shown.listed))
        rows = pending.rows if which == "all" else pending.select(which)
        if not rows:
            return await self._reply_list(call, pending)
        no = ApproveArguments(answer=Answer.DENY)
        return "\n".join([await self._answer(call, row, no, reason) for row in rows])

    async def list_or_revoke(self, call: CommandCall) -> str:
        """/grants [revoke ID]"""
        verb, _, name = call.argument.partition(" ")
        if verb == "revoke":
            if not has_right(call.role, Right.ANSWER):
                return "You may not take permissions back."
            revoked = await self.approvals.revoke_grant(name.strip())
            return (
                "Revoked: it needs a question again."
                if revoked
                else f"There is no permission {name}."
            )
        lines = [_render_grant(row) for row in await self.approvals.list_grants(call.session.id)]
        return (
            "\n".join(("Allowed without a question (/grants revoke ID takes one back):", *lines))
            if lines
            else "None."
        )

    async def _load_pending(self, call: CommandCall) -> PendingApprovals | str:
        """A text where nothing can be answered."""
        if call.session.label is Label.UNTRUSTED:
            return ANSWER_ELSEWHERE
        now = self.clock.now()

        def look(tx: Tx) -> PendingApprovals:
            rows = [
                row for row in tx.list_approvals("pending", call.session.id) if row.expires > now
            ]
            return PendingApprovals(rows, load_shown(tx, call.session.id, call.sender))

        pending = await self.store.read(look)
        return pending if pending.rows else NOTHING_PENDING

    async def _reply_list(self, call: CommandCall, pending: PendingApprovals) -> str:
        await self._save_shown(
            call, pending, replace(pending.shown, listed=tuple(map(ref_of, pending.rows)))
        )
        return render_list(pending.rows, call.session.id)

    async def _save_shown(
        self, call: CommandCall, pending: PendingApprovals, shown: ShownApprovals
    ) -> None:
        await self.store.write(
            lambda tx: save_shown(tx, call.session.id, call.sender, shown, pending.rows)
        )

    async def _answer(
        self, call: CommandCall, row: ApprovalRow, given: ApproveArguments, reason: str = ""
    ) -> str:
        by = Person(call.sender, call.role)
        try:
            done = await self.approvals.answer(
                row.turn, row.call_id, given.answer, by, reason, given.bounds
            )
        except (NotAllowedToAnswer, UsageError) as error:
            return str(error)
        if done is None:
            return QUESTION_GONE
        bounds = (
            f"\nThe same needs no question {render_bounds(done.grant)} (/grants)."
            if done.grant
            else ""
        )
        return (
            f"{'Denied' if given.answer is Answer.DENY else 'Approved'}:"
            f" {_render_call(row)}{bounds}"
        )


def parse_approve(argument: str) -> ApproveArguments:
    """`[show] [N|all] [once|session|always] [BOUNDS]`. Raises BadApproval."""
    match = APPROVE_ARGUMENTS.fullmatch(argument.strip())
    if match is None:
        raise BadApproval(APPROVE_USAGE)
    show, which, scope, bounds_text = match.groups()
    which = (which or "").lower()
    if show:
        if scope:
            raise BadApproval("Use /approve show 2, with a number of the list, or /approve show.")
        return ApproveArguments(which, show=True)
    answer = ANSWERS.get(scope.lower()) if scope else Answer.ONCE
    if answer is None:
        raise BadApproval(APPROVE_USAGE)
    bounds = _parse_bounds(bounds_text)
    if bounds != EXACT_CALL and answer not in LASTING_ANSWERS:
        raise BadApproval(f"A yes for once has no bounds. {APPROVE_USAGE}")
    return ApproveArguments(which, answer, bounds)


def parse_deny(argument: str, listed: int) -> tuple[str, str]:
    """`[N|all] [reason]` as (which, reason); a number that is not on the list is part of the
    reason.
    """
    first, _, rest = argument.partition(" ")
    if first.lower() == "all" or (first.isdecimal() and 1 <= int(first) <= listed):
        return first.lower(), rest.strip()
    return "", argument


def _parse_bounds(text: str) -> GrantBounds:
    bounds, position = EXACT_CALL, 0
    while position < len(text):
        match = BOUND.match(text, position)
        if match is None:
            raise BadApproval(f"Unknown bound {text[position:].strip()!r}. {APPROVE_USAGE}")
        position = match.end()
        if match["paths"]:
            bounds = replace(bounds, paths=match["paths"])
        elif match["number"]:
            bounds = _parse_limit(bounds, int(match["number"]), match["unit"].lower())
    return bounds


def _parse_limit(bounds: GrantBounds, number: int, unit: str) -> GrantBounds:
    if unit in ("time", "times", "x"):
        if not 1 <= number <= MAX_GRANT_USES:
            raise BadApproval(f"{number} times: expected 1 to {MAX_GRANT_USES} times.")
        return replace(bounds, uses=number)
    seconds = UNIT_SECONDS.get(unit.removesuffix("s"))
    if seconds is None:
        raise BadApproval(f"Unknown bound {number} {unit!r}. {APPROVE_USAGE}")
    duration = timedelta(seconds=number * seconds)
    if not timedelta(0) < duration <= MAX_GRANT_TERM:
        raise BadApproval(
            f"{number} {unit}: expected more than none, and at most {MAX_GRANT_TERM.days} days."
        )
    return replace(bounds, duration=duration)


def render_bounds(row: GrantRow) -> str:
    """Such as "3 times more until 20 Feb 2026 09:00 UTC"."""
    left = (
        ""
        if row.uses_left is None
        else "once more"
        if row.uses_left == 1
        else f"{row.uses_left} times more"
    )
    where = f"on {make_visible(row.paths)}" if row.paths else ""
    until = f"until {row.expires:%d %b %Y %H:%M} UTC" if row.expires else ""
    return " ".join(part for part in (left, where, until) if part)


def _render_grant(row: GrantRow) -> str:
    what = f"any call on {make_visible(row.paths)}" if row.paths else make_visible(row.arguments)
    where = (
        "to what comes from outside"
        if row.session == OUTSIDE_SCOPE
        else "this chat"
        if row.session
        else "everywhere"
    )
    used = {0: "not used yet", 1: "used once"}.get(row.uses, f"used {row.uses} times")
    return f"- {row.id}: {make_visible(row.tool)} {what} ({where}; {render_bounds(row)}; {used})"


def _render_call(row: ApprovalRow) -> str:
    return f"{make_visible(row.tool)} {make_visible(row.arguments)}"
