"""/undo: files hold again what they held before a turn changed them (F8). For people only; the model has no such tool."""

from itertools import groupby

from daemon.commands.base import Desk, Spoken
from daemon.core.label import Label
from daemon.store.protocol import ReadTx
from daemon.tools.changes import Author
from daemon.tools.undoing import Taken, by_path, latest, take_back
from daemon.tools.versions import NOTHING, Version

MOST = 10
NONE = "No change of a file is left to take back here. What commands of the shell did is not kept."


async def undo(desk: Desk, spoken: Spoken) -> str:
    """The latest turn of this chat that changed files, or the one that is named; "list" shows them."""
    versions, sessions = desk.files.versions.all, await _sessions(desk, spoken)
    if spoken.argument == "list":
        return _listed([one for one in versions if one.session in sessions])
    turn = spoken.argument or latest(versions, sessions)
    if not turn:
        return NONE
    if not any(one.turn == turn and one.session in sessions for one in versions):
        return f"There is no change of a file by {turn} in this chat. /undo list shows what there is."
    own = desk.new_id()
    author = Author(spoken.session.id, own, "", Label.TRUSTED, undoes=turn)
    taken = await take_back(desk.files, turn, author)
    return _told(turn, own, taken)


def _listed(own: list[Version]) -> str:
    turns = [(turn, list(changes)) for turn, changes in groupby(own, key=lambda one: one.turn)]
    lines = [_line(turn, changes) for turn, changes in reversed(turns[-MOST:])]
    return "\n".join(("Changes of files, latest first (/undo ID takes one back):", *lines)) if lines else NONE


def _line(turn: str, changes: list[Version]) -> str:
    files = [f"{path} ({_kind(several)})" for path, several in by_path(changes, turn).items()]
    kind = f"undo of {changes[0].undoes}, " if changes[0].undoes else ""
    back = ", taken back" if all(one.undone for one in changes) else ""
    return f"- {turn}, {kind}{changes[0].at:%Y-%m-%d %H:%M}{back}: {', '.join(files)}"


def _kind(changes: list[Version]) -> str:
    if changes[-1].new == NOTHING:
        return "removed"
    return "new" if changes[0].old == NOTHING else "changed"


def _told(turn: str, own: str, taken: list[Taken]) -> str:
    done = [f"- {one.path}: {one.words}" for one in taken if one.done]
    left = [f"- {one.path}: {one.words}" for one in taken if not one.done]
    lines = [f"Taken back, what {turn} did (/undo {own} would put it there again):", *done] if done else []
    lines += [f"Not taken back, what {turn} did:", *left] if left else []
    return "\n".join(lines)


async def _sessions(desk: Desk, spoken: Spoken) -> set[str]:
    """This chat, and those that work for it."""

    def look(tx: ReadTx) -> set[str]:
        return {row.id for row in tx.sessions() if row.root == spoken.session.id}

    return {spoken.session.id, *await desk.store.read(look)}
