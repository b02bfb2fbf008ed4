"""Files of the workspace: labels, former versions, commands that run."""

import json
from collections.abc import Iterable
from dataclasses import replace

from daemon.core import value
from daemon.core.rows import FileLabel, FileVersion
from daemon.store.tables.base import List, RowMapper, Table, Value


@value
class ForeignContent:
    """What a stranger's file held. `key`: its digest, of a tiny one together with its path; `turn`
    brought it, "" for a server.
    """

    key: str
    size: int
    turn: str


LABELS = RowMapper(FileLabel, "file_labels")
REPLACE_LABEL = """ON CONFLICT (path) DO UPDATE SET label = excluded.label, turn = excluded.turn,
    scope = excluded.scope, digest = excluded.digest, holds = excluded.holds,
    maker = excluded.maker"""
FOREIGN = RowMapper(ForeignContent, "foreign_contents")
VERSIONS = RowMapper(FileVersion, "file_versions")
REPLACE_VERSION = "ON CONFLICT (name) DO UPDATE SET undone = excluded.undone"
# A path that ends with a slash is of many files; `new` begins with their number.
# A turn that has changed nothing, as most, costs no table to sort in.
CHANGES = """SELECT CASE WHEN EXISTS (SELECT 1 FROM file_versions WHERE turn = ?1)
    OR EXISTS (SELECT 1 FROM children WHERE parent = ?1)
    THEN (SELECT json_group_array(json_array(json(path), lines, files)) FROM
    (SELECT path, SUM(lines) AS lines,
    CASE WHEN path LIKE '%/"' THEN SUM(CAST(new AS INTEGER)) ELSE 1 END AS files FROM file_versions
    WHERE undoes = '' AND (turn = ?1 OR turn IN (SELECT turn FROM children WHERE parent = ?1))
    GROUP BY path ORDER BY path))
    ELSE '[]' END"""


class FileTables(Table):
    """The file_labels, foreign_contents and file_versions tables."""

    list_file_labels = List[[], FileLabel](LABELS, "ORDER BY path")

    def put_files(
        self, labels: Iterable[FileLabel] = (), versions: Iterable[FileVersion] = ()
    ) -> None:
        """Insert, or replace; of a known version only `undone` changes."""
        for version in versions:
            row = replace(version, path=json.dumps(version.path))
            self._insert(VERSIONS, REPLACE_VERSION, row)
        for label in labels:
            self._insert(LABELS, REPLACE_LABEL, replace(label, path=json.dumps(label.path)))

    def remove_file_labels(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._run("DELETE FROM file_labels WHERE path = ?", json.dumps(path))

    list_foreign_contents = List[[], ForeignContent](FOREIGN, "ORDER BY rowid")
    """Oldest first."""

    def change_foreign_contents(
        self, added: Iterable[ForeignContent] = (), removed: Iterable[str] = ()
    ) -> None:
        """What is known stays as it is."""
        for one in added:
            self._insert(FOREIGN, "ON CONFLICT (key) DO NOTHING", one)
        for key in removed:
            self._run("DELETE FROM foreign_contents WHERE key = ?", key)

    list_file_versions = List[[], FileVersion](VERSIONS, "ORDER BY name")
    """Changes of files, oldest first."""

    get_changes = Value[[str], str](CHANGES)
    """A JSON list of the files that the turn, or an agent that it set to work, changed, each with
    how many lines it has more and how many files it stands for.
    """

    def remove_file_versions(self, names: Iterable[str]) -> None:
        for name in names:
            self._run("DELETE FROM file_versions WHERE name = ?", name)
