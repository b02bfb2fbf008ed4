"""The chat commands of every channel: names, help and rights, and how one is run: the journal has
it before it is carried out, and its reply afterwards. The model never sees them.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import groupby
from operator import attrgetter

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import AidaemonError, UsageError
from daemon.core.messages import defuse
from daemon.core.quoted import fence_quoted
from daemon.core.rows import InboxRow, OutboxRow, SessionRow
from daemon.core.trust import Resource, Right, Role, has_right
from daemon.sessions.brakes import TooMany
from daemon.sessions.inbox import COMMAND_STATE, NOT_KEPT
from daemon.store.journal import Store, Tx

DONE_STATE, REPLY_KIND = "command", "command"
log = logging.getLogger(__name__)
RESULT_UNKNOWN = (
    "This command came before, and it is unknown whether it was carried out."
    " Check, and repeat it if needed."
)
INTERRUPTED = (
    "A restart interrupted {text!r}; it is unknown whether it was carried out."
    " Check, and repeat it if needed."
)
NOT_HERE = (
    "/{} shows or changes what is yours alone: use it in a chat of your own, not where others read"
    " along or write from outside. Nothing was done."
)
COMMAND_TEXT = re.compile(r"/([a-z_]+)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)

PROMPT_TEXT = re.compile(r"/[A-Za-z0-9][A-Za-z0-9_-]{0,30}:[^\s:/]\S*(\s.*)?", re.DOTALL)


@value
class CommandCall:
    """A command as somebody gave it, with their role. `turn`: the id that it has in the inbox, the
    same when it is carried out again; `private`: nobody but the owner reads along.
    """

    session: SessionRow
    sender: str
    name: str
    argument: str
    role: Role = Role.GUEST
    turn: str = ""
    private: bool = False


@value
class Command:
    """`help` is one short line; `usage` has the details; `right` is needed to give it.
    `repeatable`: it is carried out again where a crash cut it off. `private`: what it shows is the
    owner's alone.
    """

    name: str
    help: str
    usage: str = ""
    right: Right | Resource = Right.TALK
    repeatable: bool = False
    private: bool = False


GROUPS: dict[str, tuple[Command, ...]] = {
    "Look": (
        Command("start", "what to ask first", right=Right.READ),
        Command("help", "this list", right=Right.READ),
        Command("status", "this chat at a glance", right=Right.READ),
        Command("tasks", "what is not finished", right=Right.READ),
        Command("cost", "tokens and money by model", right=Resource.COST),
        Command("whoami", "who you are here", right=Right.READ),
        Command(
            "timezone",
            "your own time zone",
            "/timezone Europe/Lisbon, or a city, sets it; /timezone owner is the owner's.",
        ),
    ),
    "Work": (
        Command("stop", "stop everything here, or one task"),
        Command(
            "cancel",
            "stop everything here, or one task",
            "/cancel ID stops one task; /tasks shows the ids.",
        ),
        Command("pause", "hold before the next step, and continue"),
        Command("resume", "hold before the next step, and continue"),
        Command("clear", "start with an empty conversation", "Memory and journal stay."),
        Command(
            "loop",
            "repeat a task until it is done",
            "/loop start MESSAGE, /loop stop, /loop pause, /loop resume, /loop",
        ),
        Command(
            "schedule",
            "do a task at its time",
            "/schedule WHEN: TASK, such as /schedule every day 08:00: sum up the news."
            " /schedule lists; /schedule show|run|pause|resume|cancel NAME;"
            " /schedule change NAME WHEN: TASK.",
            Right.MANAGE,
        ),
        Command(
            "remind",
            "tell you something at its time",
            "/remind WHEN: TEXT, such as /remind tomorrow at 9:00: call Ann.",
            Right.WORK,
        ),
        Command(
            "plan",
            "plan a task, do it after one yes",
            "/plan TASK: I only read until you approve what I would do.",
            Right.MANAGE,
            repeatable=True,
        ),
        Command(
            "goal",
            "work on something for days",
            '/goal [budget=2.00] [every="day 18:00"] TEXT sets one; /goal N run|pause|resume|stop,'
            " /goal N budget=4.00; /goals lists.",
            Right.MANAGE,
        ),
        Command(
            "goals",
            "work on something for days",
            "/goals lists them.",
            Resource.GOALS,
            private=True,
        ),
        Command(
            "undo",
            "stop a message that is held, or restore files that a task changed",
            "/undo withdraws the latest message that has not left; where none is held, it restores"
            " the files of the latest task. /undo ID is for one task. /undo list shows both.",
            Right.DANGER,
            repeatable=True,
        ),
    ),
    "Permissions": (
        Command(
            "approve",
            "say yes or no to a question",
            (
                "/approve [2|all|show 2] [once|session|always [5 times] [30 minutes] [paths"
                " reports/*]]"
            ),
        ),
        Command("deny", "say yes or no to a question", "/deny [2|all] [reason]"),
        Command(
            "trust",
            "whose the files of the workspace are",
            "/trust PATH: this file or folder is yours; /untrust PATH: it is not. /trust lists.",
            Right.MANAGE,
        ),
        Command(
            "untrust",
            "whose the files of the workspace are",
            "/untrust PATH: it is a stranger's from now on.",
            Right.MANAGE,
        ),
        Command(
            "grants",
            "what is allowed without a question",
            "/grants, /grants revoke ID",
            Resource.GRANTS,
            private=True,
        ),
        Command(
            "rules",
            "what is always asked, or never done",
            "/rules, /rules add SENTENCE, /rules confirm N, /rules remove N",
            Right.MANAGE,
            private=True,
        ),
    ),
    "Model": (
        Command(
            "model", "show or choose the model", "/model, /model NAME pins one; /auto unpins it."
        ),
        Command("models", "show or choose the model", "/models lists them."),
        Command("auto", "show or choose the model", "/auto unpins the model."),
        Command("effort", "how hard the model thinks", "/effort low|medium|high|max"),
        Command("agent", "list agents or choose one", "/agent, /agent NAME"),
    ),
    "Admin": (
        Command(
            "people",
            "who was let in by a code",
            "/people, /people remove NAME",
            Resource.PEOPLE,
            private=True,
        ),
        Command(
            "mcp",
            "MCP servers and their tools",
            "/mcp, /mcp NAME [TOOL], /mcp whole NAME, /mcp approve NAME CODE [TOOL]",
            Right.MANAGE,
            private=True,
        ),
        Command(
            "prompt",
            "work by a prompt of an MCP server",
            "/prompt SERVER:PROMPT [NAME=VALUE ...], or /SERVER:PROMPT; its text is from outside.",
            Right.MANAGE,
        ),
        Command(
            "memory",
            "what is remembered, and what waits for your yes",
            "/memory, /memory search WORDS, /memory who KEY, /memory consolidate, /memory pin ID,"
            " /memory pending, /memory approve ID, /memory reject ID|all",
            Resource.MEMORIES,
            private=True,
        ),
        Command(
            "forget",
            "remove a memory, or a person, for good",
            "/forget WORDS or ID, /forget --person NAME",
            Right.MANAGE,
            private=True,
        ),
        Command("reload", "read the config file again", right=Right.MANAGE),
    ),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}
START = """Three things to try, in your own words:
- "Remind me tomorrow at 9 to call Ann."
- {files}
- "Every weekday at 8, tell me which mails matter."
I ask before I delete, send or run anything. {prefix}help lists the commands."""
FILE_EXAMPLES = {
    "terminal": '"What is in @notes.txt?" (Tab completes the name of a file)',
    "web": '"What is in notes.txt?"',
}
FILE_SENT = 'Send me a file and say: "Sum this up."'
ASKS_TO_START = re.compile(
    r"[ ¿?!.]*(?:what can you do|was kannst du|que peux-tu faire|qué puedes hacer)[ ¿?!.]*",
    re.IGNORECASE,
)
"""The whole text asks what one can ask: that is told without a model."""
FREE_TEXT = ("loop", "deny", "schedule", "goal", "plan")


def parse_command(text: str) -> tuple[str, str] | None:
    """(name, argument) of a text that is a command; "/etc/passwd" is none. "/SERVER:PROMPT WORDS"
    is `/prompt` with these.
    """
    if PROMPT_TEXT.fullmatch(text.strip()):
        return "prompt", text.strip()[1:]
    match = COMMAND_TEXT.fullmatch(text.strip())
    return (match[1].lower(), (match[2] or "").strip()) if match else None


def drop_argument(argument: str, row: InboxRow) -> str:
    """Without it where the journal kept the word of the command only: a secret was asked for."""
    return "" if row.body.endswith(NOT_KEPT) else argument


def fence_argument(name: str, argument: str, data: Sequence[str]) -> str:
    """Where a model is to read the argument, the parts in it that are another's are marked."""
    return fence_quoted(argument, data) if name in FREE_TEXT else argument


def render_help(argument: str = "") -> str:
    """All commands on one phone screen, or one in detail."""
    if name := argument.lstrip("/").lower():
        command = COMMANDS.get(name)
        if command is None:
            return describe_unknown(name)
        return f"/{name}: {command.help}.\n{command.usage}".strip()
    lines = []
    for group, commands in GROUPS.items():
        lines.append(f"{group}:")
        for text, same in groupby(commands, key=attrgetter("help")):
            lines.append(f"{', '.join(f'/{command.name}' for command in same)} - {text}")
    return "\n".join((*lines, "/help COMMAND explains one."))


def render_start(channel: str) -> str:
    """What a person can ask first, with examples that work where they are."""
    files = FILE_EXAMPLES.get(channel, FILE_SENT)
    return START.format(files=files, prefix="!" if channel == "slack" else "/")


def describe_unknown(name: str) -> str:
    """With the nearest known command."""
    near = [f" Did you mean /{one}?" for one in get_close_matches(name, COMMANDS, n=1, cutoff=0.7)]
    return f"Unknown command /{name}.{''.join(near)} /help lists all."


@value
class CommandRunner:
    """For every channel and client. `groups`: each command but /help and /start is a method of its
    name in one of them; it takes the CommandCall and returns the reply. `is_own`: nobody but the
    owner reads this session.
    """

    store: Store
    clock: Clock
    groups: tuple[object, ...]
    is_own: Callable[[str], Awaitable[bool]]

    async def run(self, row: InboxRow, call: CommandCall, *, shown: bool) -> str:
        """Carry it out; returns the reply. `shown`: the caller shows it, else it is sent to the
        conversation.
        """
        reply = defuse(await self.dispatch(replace(call, turn=row.turn)))  # it shows what was kept
        await self.store.write(lambda tx: self._finish(tx, row, reply, "sent" if shown else "new"))
        return reply

    async def dispatch(self, call: CommandCall) -> str:
        """The reply; a stranger's command, or an unknown one, does nothing."""
        command = COMMANDS.get(call.name)
        if not has_right(call.role, command.right if command else Right.TALK):
            return (
                f"You may not use /{call.name}: you are {call.sender}, {call.role.value}."
                " Nothing was done."
            )
        if command is None:
            return describe_unknown(call.name)
        call = replace(call, private=call.private or await self.is_own(call.session.id))
        if command.private and not call.private:
            return NOT_HERE.format(call.name)
        if call.name == "help":
            return render_help(call.argument)
        if call.name == "start":
            return render_start(call.session.channel)
        handlers = (getattr(group, call.name, None) for group in self.groups)
        handler = next(filter(None, handlers))
        try:
            return await handler(call)
        except (UsageError, TooMany) as error:
            return str(error)

    async def earlier_reply(self, row: InboxRow) -> str:
        """The reply to the same command when it came first."""
        rows = await self.store.read(lambda tx: tx.list_turn_outbox(row.turn))
        return next((said.body for said in rows if said.kind == REPLY_KIND), RESULT_UNKNOWN)

    async def settle_interrupted(self, only: str = "") -> None:
        """Commands that a crash cut off are not repeated, and whoever gave them is told; but those
        that are repeatable are carried out. `only`: the id of one that came again and does not run
        any more.
        """

        def list_calls(tx: Tx) -> list[tuple[InboxRow, CommandCall | None]]:
            rows = [row for row in tx.list_inputs(COMMAND_STATE) if only in ("", row.id)]
            return [(row, _make_repeat(tx, row)) for row in rows]

        for row, call in await self.store.read(list_calls):
            try:
                if call:
                    await self.run(row, call, shown=False)
                    continue
            except (AidaemonError, OSError) as error:
                log.warning("/%s of before cannot be carried out: %s", row.body, error)
            text = INTERRUPTED.format(text=row.body)
            await self.store.write(
                lambda tx, row=row, text=text: self._finish(tx, row, text, "new")
            )

    def _finish(self, tx: Tx, row: InboxRow, text: str, state: str) -> None:
        tx.set_input_state(row.id, DONE_STATE)
        if session := tx.get_session(row.session):
            where, at = (session.id, session.channel, session.chat), self.clock.now()
            tx.post_delivery(OutboxRow(row.turn, -1, *where, REPLY_KIND, text, at, state=state))


def _make_repeat(tx: Tx, row: InboxRow) -> CommandCall | None:
    """The command once more, where it may be repeated: nothing was said there after it, so it still
    means what it meant.
    """
    found, session = parse_command(row.body), tx.get_session(row.session)
    if found is None or session is None or tx.has_later_input(row.session, row.id):
        return None
    name, argument = found
    command = COMMANDS.get(name)
    if command is None or not command.repeatable or row.role not in set(Role):
        return None
    argument = drop_argument(argument, row)
    return CommandCall(session, row.sender, name, argument, Role(row.role))
