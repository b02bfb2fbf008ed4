"""Completes @NAME in the prompt to a file of the workspace."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

MARKED = re.compile(r"(?:^|\s)@([^@\n]*)$")
MAX_NAMES = 200


@dataclass(frozen=True)
class FileCompleter(Completer):
    """Names under `root`, folder by folder; hidden ones once their dot is typed."""

    root: Path

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The names that begin as what stands behind the last @."""
        marked = MARKED.search(document.text_before_cursor)
        folder, _, begin = marked[1].rpartition("/") if marked else ("", "", "")
        if marked is None:
            return
        for name in list_names(self.root, folder):
            if name.startswith(begin) and (begin or not name.startswith(".")):
                yield Completion(name, -len(begin), display=name)


def list_names(root: Path, folder: str) -> list[str]:
    """What is in this folder under `root`, folders with a slash; nothing of a folder elsewhere. A
    name that cannot be shown as it is is left out.
    """
    place = (root / folder).resolve()
    if not place.is_relative_to(root):
        return []
    try:
        with os.scandir(place) as entries:
            found = [one.name + ("/" if one.is_dir() else "") for one in entries]
    except OSError:
        return []
    return sorted(name for name in found if name.isprintable())[:MAX_NAMES]
