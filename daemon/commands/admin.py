"""/people /mcp /reload: for who manages the daemon (A20, A22, trust.md); /undo: a message that has
not left is withdrawn, files get back the content they had before a turn changed them (F8). For
people only; the model has no such tools.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from daemon.commands.registry import CommandCall
from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.errors import ConfigError, UsageError
from daemon.core.messages import describe_message, describe_outgoing
from daemon.core.rows import FileVersion, OutboxRow
from daemon.core.trust import Label
from daemon.services.admin import PeopleService, answer_mcp
from daemon.sessions.inbox import Inbox, InboxMessage
from daemon.store.journal import Store, Tx
from daemon.tools.mcp.pins import PinStore
from daemon.tools.mcp.servers import ServerManager
from daemon.tools.workspace.bulk import is_bulk
from daemon.tools.workspace.file_store import NO_FILE, ChangeAuthor, FileStore
from daemon.tools.workspace.undo import find_latest_turn, group_by_path, undo_turn

PEOPLE_USAGE = "Use /people, or /people remove NAME with a name of that list."
NOBODY = (
    "Nobody has been let in by a code. `aidaemon pair` prints one. People in config.toml"
    " are not listed here."
)
NOTHING_TO_UNDO = "There is no file change to undo here."
MAX_LISTED, SERVERS_S = 10, 20.0


@value
class AdminCommands:
    """`reload_config`: the keys that have changed, those that apply now and those that need a
    restart.
    """

    directory: PeopleService
    reload_config: Callable[[], Awaitable[tuple[list[str], list[str]]]]
    pins: PinStore
    servers: ServerManager
    inbox: Inbox

    async def people(self, call: CommandCall) -> str:
        """/people [remove NAME]"""
        verb, _, name = call.argument.partition(" ")
        if verb in ("", "list"):
            people = await self.directory.list_people()
            return "\n".join(f"- {one.name}: {one.role}" for one in people) or NOBODY
        name = name.strip()
        if verb != "remove" or not name:
            return PEOPLE_USAGE
        if not await self.directory.remove(name):
            return f"Nobody is known as {name}. {PEOPLE_USAGE}"
        if self.directory.is_in_config(name):
            return (
                f"The code of {name} is revoked, but config.toml still lists them: remove"
                " them there, too."
            )
        return f"{name} is removed."

    async def mcp(self, call: CommandCall) -> str:
        """See services.admin."""
        names = tuple(self.servers.configs)
        return await answer_mcp(call.argument, self.pins, names, self.servers)

    async def prompt(self, call: CommandCall) -> str:
        """/prompt SERVER:PROMPT [WORDS]: a message, with the server's text as data in it (G2)."""
        named, _, given = call.argument.partition(" ")
        server, _, prompt = named.partition(":")
        session = call.session
        if session.label is Label.UNTRUSTED:
            raise UsageError("Not in a conversation from outside.")
        if not (server and prompt):
            raise UsageError("Use /prompt SERVER:PROMPT [NAME=VALUE ...].")
        found = await self.servers.find_prompt(server, prompt, given.strip())
        text = f"Do what this prompt {prompt} of the MCP server {server} says:\n\n{found}"
        where, key = (session.channel, session.chat, session.id), f"{call.turn}/prompt"
        more = {"role": call.role.value, "data": (found,)}
        await self.inbox.accept(InboxMessage(*where, call.sender, key, text, **more))
        return f"I work by the prompt {prompt} of {server}."

    async def reload(self, call: CommandCall) -> str:
        """A running turn keeps its settings; what needs a restart is named. New servers have their
        tools when it answers, or a reason.
        """
        try:
            live, restart = await self.reload_config()
        except ConfigError as error:
            return f"The file has errors, so nothing changes:\n{error}"
        down: Mapping[str, str] = {}
        if any(key.startswith("mcp.") for key in live):
            await self.servers.ready(SERVERS_S)
            down = self.servers.problems()
        lines = _list_changes("Applied from the next message on:", live)
        lines += _list_changes("A restart is needed for:", restart)
        lines += [f"MCP server {name} is not there: {why} (/mcp)" for name, why in down.items()]
        return "\n".join(lines) or "The file has not changed."


def _list_changes(head: str, changes: Sequence[str]) -> list[str]:
    if len(changes) == 1:
        return [f"{head} {changes[0]}."]
    return [head, *(f"- {one}" for one in changes)] * bool(changes)


@value
class UndoCommand:
    """Applies to the chat and to what works for it: sub-agents, schedules, events and loops."""

    store: Store
    files: FileStore

    async def undo(self, call: CommandCall) -> str:
        """/undo [ID|list]; without an id the latest message that is held; where none is, the chat's
        latest turn that changed files. Both are marked with the command's own id, so that one which
        a crash cut off goes on where it was.
        """
        chat, wanted = call.session.id, call.argument
        turns = await self._find_changes(chat)
        if wanted == "list":
            rows = await self.store.read(lambda tx: tx.list_outgoing(chat))
            return _render_list(rows, turns) or NOTHING_TO_UNDO
        withdrawn, left = await self.store.write(lambda tx: _withdraw(tx, call))
        if withdrawn and not wanted:
            return "\n".join(withdrawn)
        changes = [one for several in turns.values() for one in several]
        begun = next((one.undoes for one in changes if one.turn == call.turn), "")
        turn = wanted or begun or find_latest_turn(changes)
        said = withdrawn + list(map(_say_left, left))
        if turn not in turns:
            nothing = f"{turn} changed no file in this chat. /undo list shows what did."
            return "\n".join(said) or (nothing if turn else NOTHING_TO_UNDO)
        if not (wanted or begun) and left and left[0].created_at >= turns[turn][-1].at:
            return f"{said[0]} No file was changed: /undo {turn} restores those of before."
        lines = said if wanted else []
        return "\n".join((*lines, await self._restore(call, turn)))

    async def _find_changes(self, chat: str) -> dict[str, list[FileVersion]]:
        """By turn, the latest last."""
        rows = await self.store.read(lambda tx: tx.list_subsessions(chat))
        sessions, turns = {chat, *(row.id for row in rows)}, dict[str, list[FileVersion]]()
        for one in self.files.versions.values():
            if one.session in sessions:
                turns.setdefault(one.turn, []).append(one)
        return turns

    async def _restore(self, call: CommandCall, turn: str) -> str:
        author = ChangeAuthor(call.session.id, call.turn, "", Label.TRUSTED, undoes=turn)
        results = await undo_turn(self.files, turn, author)
        heads = {
            True: f"Undone, of {turn} (/undo {call.turn} reverts this):",
            False: f"Not undone, of {turn}:",
        }
        lines = []
        for done, head in heads.items():
            words = [f"- {one.path}: {one.words}" for one in results if one.done is done]
            lines += [head, *words] if words else []
        return "\n".join(lines)


def _withdraw(tx: Tx, call: CommandCall) -> tuple[list[str], list[OutboxRow]]:
    """What is said of the messages that are withdrawn, the latest that is held or all of the turn;
    and those that have left, latest first.
    """
    turn, mark = call.argument, f"/undo {call.turn}"
    rows = [row for row in tx.list_outgoing(call.session.id) if turn in ("", row.turn)]
    held = [row for row in rows if row.state == "held"]
    taken = [row for row in rows if row.state == "withdrawn" and row.error == mark]
    if turn or not taken:
        now = held if turn else held[:1]
        taken += [row for row in now if tx.withdraw(mark, row.turn, row.part)]
    held += [row for row in taken if row.state == "withdrawn"]
    said = [f"Withdrawn: {describe_message(row)}. It was not sent." for row in taken]
    if more := len(held) - len(taken):
        said.append(f"{more} more held: /undo withdraws the next.")
    return said, [row for row in rows if row.state not in ("held", "withdrawn")]


def _say_left(row: OutboxRow) -> str:
    return f"Not undone: {describe_outgoing(row)}."


def _render_list(rows: Sequence[OutboxRow], turns: Mapping[str, list[FileVersion]]) -> str:
    held = [f"- {row.turn}, {describe_outgoing(row)}" for row in rows if row.state == "held"]
    files = list(map(_describe_changes, turns.values()))[-MAX_LISTED:][::-1]
    lines = ["Messages that are held, latest first (/undo withdraws the latest):"] * bool(held)
    lines += [*held, *["File changes, latest first (/undo ID undoes one):"] * bool(files), *files]
    return "\n".join(lines)


def _describe_changes(changes: list[FileVersion]) -> str:
    first = changes[0]
    files = []
    for path, versions in group_by_path(changes, first.turn).items():
        if is_bulk(versions[0]):
            files.append(f"{path} ({', '.join(one.new for one in versions)})")
            continue
        kind = "new" if versions[0].old == NO_FILE else "changed"
        files.append(f"{path} ({'removed' if versions[-1].new == NO_FILE else kind})")
    kind = f"undo of {first.undoes}, " if first.undoes else ""
    undone = ", undone" if all(one.undone for one in changes) else ""
    at = show_time(first.at, "%Y-%m-%d %H:%M")
    return f"- {first.turn}, {kind}{at}{undone}: {', '.join(files)}"
