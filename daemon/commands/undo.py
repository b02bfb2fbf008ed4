"""/undo: files hold again what they held before a turn changed them (F8). For people only; the model has no such tool."""

from itertools import groupby

from daemon.commands.registry import CommandCall, Services
from daemon.core.journal import ReadTx
from daemon.core.trust import Label
from daemon.tools.workspace.file_store import (
    ChangeAuthor,
    UndoResult,
    find_latest_turn,
    group_by_path,
    undo_turn,
)
from daemon.tools.workspace.history import NO_FILE, FileVersion

MAX_LISTED = 10
NOTHING_TO_UNDO = (
    "No change of a file is left to take back here. What commands of the shell did is not kept."
)


async def run_undo(desk: Services, spoken: CommandCall) -> str:
    """The latest turn of this chat that changed files, or the one that is named; "list" shows them."""
    versions, sessions = desk.files.history.entries, await _chat_sessions(desk, spoken)
    if spoken.argument == "list":
        return _render_list([one for one in versions if one.session in sessions])
    turn = spoken.argument or find_latest_turn(versions, sessions)
    if not turn:
        return NOTHING_TO_UNDO
    if not any(one.turn == turn and one.session in sessions for one in versions):
        return (
            f"There is no change of a file by {turn} in this chat. /undo list shows what there is."
        )
    own = desk.new_id()
    author = ChangeAuthor(spoken.session.id, own, "", Label.TRUSTED, undoes=turn)
    taken = await undo_turn(desk.files, turn, author)
    return _render_result(turn, own, taken)


def _render_list(own: list[FileVersion]) -> str:
    turns = [(turn, list(changes)) for turn, changes in groupby(own, key=lambda one: one.turn)]
    lines = [_render_turn(turn, changes) for turn, changes in reversed(turns[-MAX_LISTED:])]
    return (
        "\n".join(("Changes of files, latest first (/undo ID takes one back):", *lines))
        if lines
        else NOTHING_TO_UNDO
    )


def _render_turn(turn: str, changes: list[FileVersion]) -> str:
    files = [
        f"{path} ({_change_kind(several)})"
        for path, several in group_by_path(changes, turn).items()
    ]
    kind = f"undo of {changes[0].undoes}, " if changes[0].undoes else ""
    back = ", taken back" if all(one.undone for one in changes) else ""
    return f"- {turn}, {kind}{changes[0].at:%Y-%m-%d %H:%M}{back}: {', '.join(files)}"


def _change_kind(changes: list[FileVersion]) -> str:
    if changes[-1].new == NO_FILE:
        return "removed"
    return "new" if changes[0].old == NO_FILE else "changed"


def _render_result(turn: str, own: str, taken: list[UndoResult]) -> str:
    done = [f"- {one.path}: {one.words}" for one in taken if one.done]
    left = [f"- {one.path}: {one.words}" for one in taken if not one.done]
    lines = (
        [f"Taken back, what {turn} did (/undo {own} would put it there again):", *done]
        if done
        else []
    )
    lines += [f"Not taken back, what {turn} did:", *left] if left else []
    return "\n".join(lines)


async def _chat_sessions(desk: Services, spoken: CommandCall) -> set[str]:
    """This chat, and those that work for it."""

    def look(tx: ReadTx) -> set[str]:
        return {row.id for row in tx.list_sessions() if row.root == spoken.session.id}

    return {spoken.session.id, *await desk.store.read(look)}
