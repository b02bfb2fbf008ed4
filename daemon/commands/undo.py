"""/undo: files get back the content they had before a turn changed them (F8). For people only; the
model has no such tool.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from daemon.commands.registry import CommandCall, Handlers
from daemon.core import value
from daemon.core.ids import NewId
from daemon.core.trust import Label
from daemon.store.journal import Store
from daemon.tools.workspace.file_store import (
    ChangeAuthor,
    FileStore,
    find_latest_turn,
    group_by_path,
    undo_turn,
)
from daemon.tools.workspace.history import NO_FILE, FileVersion

MAX_LISTED = 10
NOTHING_TO_UNDO = (
    "There is no file change to undo here. Changes by shell commands are not recorded."
)


@value
class UndoCommand:
    """Applies to the chat and to the sub-agents that work for it."""

    store: Store
    files: FileStore
    new_id: NewId

    def handlers(self) -> Handlers:
        """By command."""
        return {"undo": self.undo}

    async def undo(self, call: CommandCall) -> str:
        """/undo [ID|list]; without an id the chat's latest turn that changed files."""
        chat = call.session.id
        sessions = {
            chat,
            *await self.store.read(lambda tx: [row.id for row in tx.list_subsessions(chat)]),
        }
        own = [one for one in self.files.history.entries if one.session in sessions]
        if call.argument == "list":
            return _render_list(own)
        turn = call.argument or find_latest_turn(own, sessions)
        if not turn:
            return NOTHING_TO_UNDO
        if turn not in {one.turn for one in own}:
            return f"{turn} changed no file in this chat. /undo list shows what did."
        new_turn = self.new_id()
        author = ChangeAuthor(chat, new_turn, "", Label.TRUSTED, undoes=turn)
        results = await undo_turn(self.files, turn, author)
        done = [f"- {one.path}: {one.words}" for one in results if one.done]
        failed = [f"- {one.path}: {one.words}" for one in results if not one.done]
        lines = [f"Undone, of {turn} (/undo {new_turn} reverts this):", *done] if done else []
        lines += [f"Not undone, of {turn}:", *failed] if failed else []
        return "\n".join(lines)


def _render_list(versions: Sequence[FileVersion]) -> str:
    turns = [list(changes) for _, changes in groupby(versions, key=attrgetter("turn"))]
    lines = [_render_turn(changes) for changes in reversed(turns[-MAX_LISTED:])]
    return (
        "\n".join(("File changes, latest first (/undo ID undoes one):", *lines))
        if lines
        else NOTHING_TO_UNDO
    )


def _render_turn(changes: list[FileVersion]) -> str:
    first = changes[0]
    files = []
    for path, of_path in group_by_path(changes, first.turn).items():
        kind = (
            "removed"
            if of_path[-1].new == NO_FILE
            else "new"
            if of_path[0].old == NO_FILE
            else "changed"
        )
        files.append(f"{path} ({kind})")
    kind = f"undo of {first.undoes}, " if first.undoes else ""
    undone = ", undone" if all(one.undone for one in changes) else ""
    return f"- {first.turn}, {kind}{first.at:%Y-%m-%d %H:%M}{undone}: {', '.join(files)}"
