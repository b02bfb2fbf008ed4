"""Files of the workspace: labels, former versions, commands that run."""

from collections.abc import Iterable

from daemon.core.rows import AnyPath, FileLabel, FileVersion, RunningCommand
from daemon.store.tables.base import CONVERTERS, RowMapper, Table

LABELS = RowMapper(FileLabel, "file_labels")
REPLACE_LABEL = """ON CONFLICT (path) DO UPDATE SET label = excluded.label, turn = excluded.turn,
    scope = excluded.scope"""
REMOVE_LABEL = "DELETE FROM file_labels WHERE path = ?"
VERSIONS = RowMapper(FileVersion, "file_versions")
REPLACE_VERSION = "ON CONFLICT (name) DO UPDATE SET undone = excluded.undone"
REMOVE_VERSION = "DELETE FROM file_versions WHERE name = ?"
COMMANDS = RowMapper(RunningCommand, "running_commands")
REMOVE_COMMAND = "DELETE FROM running_commands WHERE name = ?"


class FileStateTable(Table):
    """The file_labels, file_versions and running_commands tables."""

    def list_file_labels(self) -> list[FileLabel]:
        """Labels of places in the workspace."""
        return self._all(LABELS, "ORDER BY path")

    def put_file_labels(self, rows: Iterable[FileLabel]) -> None:
        """Insert, or replace."""
        for row in rows:
            self._insert(LABELS, row, REPLACE_LABEL)

    def remove_file_labels(self, paths: Iterable[str]) -> None:
        """Delete the labels of these places."""
        write, _ = CONVERTERS[AnyPath]
        for path in paths:
            self._run(REMOVE_LABEL, write(path))

    def list_file_versions(self) -> list[FileVersion]:
        """Changes of files, oldest first."""
        return self._all(VERSIONS, "ORDER BY name")

    def put_file_versions(self, rows: Iterable[FileVersion]) -> None:
        """Insert; of a known one only `undone` changes."""
        for row in rows:
            self._insert(VERSIONS, row, REPLACE_VERSION)

    def remove_file_versions(self, names: Iterable[str]) -> None:
        """Delete these changes."""
        for name in names:
            self._run(REMOVE_VERSION, name)

    def add_running_command(self, row: RunningCommand) -> None:
        """A command starts."""
        self._insert(COMMANDS, row)

    def list_running_commands(self) -> list[RunningCommand]:
        """Commands whose changes nobody has looked at yet."""
        return self._all(COMMANDS, "ORDER BY name")

    def remove_running_commands(self, names: Iterable[str]) -> None:
        """Their changes have been looked at."""
        for name in names:
            self._run(REMOVE_COMMAND, name)
