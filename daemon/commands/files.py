"""/trust /untrust: whose the files of the workspace are."""

import asyncio
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from daemon.commands.registry import CommandCall
from daemon.core import value
from daemon.core.errors import UsageError
from daemon.core.rows import FileLabel, LabelScope
from daemon.core.trust import Label
from daemon.store.tables.file_state import ForeignContent
from daemon.tools.base import ToolError
from daemon.tools.layers.merge import bring_held, group_by_folder
from daemon.tools.workspace.command_effects import CommandEffects, HeldFiles, list_held
from daemon.tools.workspace.foreign import list_keys
from daemon.tools.workspace.index import WorkspaceIndex
from daemon.tools.workspace.labels import FileLabels

SHOWN = 8
TRUST_USAGE = (
    "/trust PATH says that a file or a folder of the workspace is yours, /trust . all of them;"
    " /untrust PATH takes it back."
)


@value
class TrustCommands:
    """For the owner, in a chat that can be trusted."""

    effects: CommandEffects

    async def trust(self, call: CommandCall) -> str:
        """/trust PATH..., or /trust alone for what is a stranger's."""
        _require_owner(call)
        if not call.argument:
            return await self.describe() or f"All files are yours. {TRUST_USAGE}"
        return await self._label(call.argument, Label.TRUSTED)

    async def untrust(self, call: CommandCall) -> str:
        """/untrust PATH"""
        _require_owner(call)
        return await self._label(call.argument, Label.UNTRUSTED) if call.argument else TRUST_USAGE

    async def describe(self) -> str:
        """How many files of which folders are a stranger's; empty where there are none."""
        index, labels = await self.effects.look(), self.effects.files.labels.snapshot()
        counts = await asyncio.to_thread(count_strange, index, labels)
        lines = await asyncio.to_thread(describe_held, self.effects.held)
        return "\n".join(filter(None, (describe_counts(counts), *lines)))

    async def _bring(self, place: str) -> str:
        """How much of what commands had left there comes to its place; empty for nothing."""
        effects = self.effects
        root = effects.files.workspace.root
        async with effects.files.lock:
            try:
                found = await asyncio.to_thread(bring_first, effects.held, root, place)
            except OSError as error:
                raise UsageError(f"Not all of {place} came to its place: {error}") from error
        return f"{len(found)} file{'s' * (len(found) != 1)}" if found else ""

    async def _label(self, path: str, label: Label) -> str:
        files, labels = self.effects.files, self.effects.files.labels
        try:
            place = files.workspace.normalize(path)
        except ToolError as error:
            raise UsageError(f"Nothing was changed: {error}") from error
        brought = label is Label.TRUSTED and place and await self._bring(place)
        found = files.workspace.stat(place)
        if found is None or files.workspace.is_mounted(place):
            raise UsageError(f"Nothing was changed: {path} is not in the workspace.")
        is_folder = stat.S_ISDIR(found.st_mode)
        if not is_folder and (not stat.S_ISREG(found.st_mode) or found.st_nlink > 1):
            raise UsageError(
                f"Nothing was changed: {path} is a link, or has a second name. Trust the file that"
                " it leads to, or copy it."
            )
        index = await self.effects.look()
        async with files.lock:
            nested = list_nested(index, place) if label is Label.TRUSTED else []
            below = [
                one.path
                for one in labels.entries
                if _is_below(one.path, place) and not any(_is_below(one.path, n) for n in nested)
            ]
            await labels.remove(below)
            scope = LabelScope.TREE if is_folder else LabelScope.FILE
            identify = labels.find_repository if is_folder else labels.hash_file
            digest = await asyncio.to_thread(identify, place)
            foreign: list[ForeignContent] = []
            if label is Label.TRUSTED:
                keys = await asyncio.to_thread(list_foreign_below, index, labels, place, nested)
                await labels.forget_foreign(keys)
            elif not is_folder:
                foreign = labels.foreign.find_new([labels.hold(place)], "owner", ())
            # Beside a server without a sandbox, a folder is known by what its files hold now.
            state = Label.UNTRUSTED if is_folder and labels.unsandboxed else label
            await labels.save([FileLabel(place, state, "owner", scope, digest)], foreign=foreign)
            if is_folder and label is Label.TRUSTED:
                now = labels.snapshot()
                await labels.save(await asyncio.to_thread(list_suspects, index, now, place, nested))
        shown = place or "the workspace"
        if brought:
            shown = f"{shown} is in its place ({brought}) and"
        if label is Label.UNTRUSTED:
            return f"{shown} is not trusted any more."
        if not nested:
            return f"{shown} is trusted as yours."
        words = ", ".join(nested[:SHOWN]) + (" ..." if len(nested) > SHOWN else "")
        return (
            f"{shown} is trusted as yours, but not what is a repository of its own: {words}."
            " /trust each that is yours."
        )


def count_strange(index: WorkspaceIndex, labels: FileLabels) -> Counter[str]:
    """Files that are a stranger's, by their first folder. In a thread."""
    return Counter(
        path.partition("/")[0] + "/" if "/" in path else "."
        for path in index.list_untrusted(labels)
    )


def describe_counts(counts: Counter[str]) -> str:
    """For people; empty where there are none."""
    if not counts:
        return ""
    count = sum(counts.values())
    places = ", ".join(f"{one}: {files}" for one, files in counts.most_common(SHOWN))
    noun = "file in the workspace is" if count == 1 else "files in the workspace are"
    return (
        f"{count} {noun} a stranger's ({places}): what they say is not taken for your words."
        " /trust PATH makes some yours."
    )


def bring_first(held: HeldFiles, root: Path, place: str) -> list[str]:
    """What waits there comes to its place; the owner's before others'. In a thread."""
    found = (bring_held(folder, root, place) for folder in held.list_folders())
    return next(filter(None, found), [])


def describe_held(held: HeldFiles) -> list[str]:
    """What commands have left that waits for the owner. In a thread."""
    lines = list[str]()
    for folder in held.list_folders():
        if found := group_by_folder(sorted(list_held(folder))):
            more = f" and {len(found) - SHOWN} more" * (len(found) > SHOWN)
            whose = "commands" if folder == held.find() else "commands of others, or servers,"
            lines.append(
                f"What {whose} left that could run outside the sandbox waits in {folder}:"
                f" {', '.join(found[:SHOWN])}{more}. /trust PATH brings it to its place."
            )
    return lines


def list_nested(index: WorkspaceIndex, place: str) -> list[str]:
    """Repositories of their own below this folder: its trust is not for them."""
    tops = (top for top, folder in index.folders.items() if folder.has_repository)
    return [top for top in tops if top != place and _is_below(top, place)]


def list_suspects(
    index: WorkspaceIndex, labels: FileLabels, place: str, nested: Sequence[str]
) -> list[FileLabel]:
    """What is a stranger's still beside a server without a sandbox, and the owner's now. In a
    thread.
    """
    return [
        FileLabel(path, Label.TRUSTED, "owner", digest=digest)
        for path in index.list_untrusted(labels)
        if _is_below(path, place)
        and not any(_is_below(path, one) for one in nested)
        and (digest := labels.hash_file(path))
    ]


def list_foreign_below(
    index: WorkspaceIndex, labels: FileLabels, place: str, nested: Sequence[str]
) -> set[str]:
    """Which of the contents of strangers lie there, and are the owner's now. In a thread."""
    foreign = labels.foreign
    held = (
        labels.hold(path)
        for path in index.list_sized(foreign.sizes)
        if _is_below(path, place) and not any(_is_below(path, one) for one in nested)
    )
    keys = {key for one in held for key in list_keys(one.path, one.digest)}
    return keys & foreign.by_key.keys()


def _is_below(path: str, place: str) -> bool:
    return not place or path == place or path.startswith(f"{place}/")


def _require_owner(call: CommandCall) -> None:
    if call.session.label is Label.UNTRUSTED:
        raise UsageError("Files are not trusted from a conversation from outside.")
