"""Where the workspace may lie: nothing of the daemon's own can be reached through it (A6 of the reference)."""

from pathlib import Path

from daemon.config.paths import Paths
from daemon.core.errors import ConfigError
from daemon.tools.config import HOUSE_FOLDERS


def workspace_of(paths: Paths, workspace: str) -> Path:
    """The workspace, links resolved. Raises ConfigError where the daemon's own files are in it, or where it is among them."""
    place, home = (paths.home / workspace).resolve(), paths.home.resolve()
    own = {paths.config.resolve().parent: paths.config, home: paths.home}
    held = [kept for folder, kept in own.items() if folder.is_relative_to(place)]
    around = [home / name for name in HOUSE_FOLDERS if place.is_relative_to((home / name).resolve())]
    if held or around:
        kept = f"{held[0]} is in it" if held else f"it is in {around[0]}"
        raise ConfigError(
            f"{paths.config}: tools.workspace: found {workspace!r}, which is {place}: {kept}. Tools would reach what is the "
            'daemon\'s own; expected a folder for nothing else, for example "workspace"'
        )
    return place
