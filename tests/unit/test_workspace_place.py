"""Where the workspace may lie: never where tools would reach the daemon's own files (A6 of the reference)."""

from pathlib import Path

import pytest

from daemon.app.config import parse_config
from daemon.app.tools import resolve_workspace
from daemon.core.errors import ConfigError
from daemon.settings.paths import Paths, resolve_paths


def home_at(place: Path) -> Paths:
    home = place / "me/.aidaemon"
    (home / "agents").mkdir(parents=True)
    return resolve_paths(str(home), None)


@pytest.mark.parametrize(
    "workspace", ["workspace", "work/deep", ".hidden", "/srv/project", "undone"]
)
def test_a_folder_of_its_own_is_fine(workspace: str) -> None:
    text = f'[tools]\nworkspace = "{workspace}"\n'
    assert (
        parse_config(text, Path("config.toml"), env={}, secrets={}).config.tools.workspace
        == workspace
    )


@pytest.mark.parametrize(
    "workspace",
    [
        ".",
        "",
        "./",
        "..",
        "../..",
        "a/../..",
        "agents",
        "agents/x",
        "undo",
        "logs",
        "./skills",
        "files/inbox",
    ],
)
def test_HOME_what_is_around_it_and_the_daemon_s_folders_are_refused_as_they_are_written(
    workspace: str,
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(
            f'[tools]\nworkspace = "{workspace}"\n', Path("config.toml"), env={}, secrets={}
        )
    assert (
        f'tools.workspace: found "{workspace}", expected a folder with nothing of the daemon\'s'
        in str(caught.value)
    )


def test_whole_paths_and_links_that_lead_there_are_refused_too(tmp_path: Path) -> None:
    paths = home_at(tmp_path)
    (paths.home / "link").symlink_to("..")
    (paths.home / "specs").symlink_to("agents")
    (paths.home / "real").mkdir()
    (paths.home / "fine").symlink_to("real")
    whole = [paths.home, paths.home.parent, "/", paths.home / "agents", paths.home / "undo/x"]
    for bad in ("link", "specs", *map(str, whole)):
        with pytest.raises(
            ConfigError,
            match=r"tools\.workspace: found .* Tools would reach the daemon's own files",
        ):
            resolve_workspace(paths, bad)
    assert resolve_workspace(paths, "fine") == (paths.home / "real").resolve()
    assert resolve_workspace(paths, "not/there/yet") == (paths.home / "not/there/yet").resolve()
    assert resolve_workspace(paths, str(tmp_path / "project")) == (tmp_path / "project").resolve()


def test_a_config_file_elsewhere_must_not_lie_in_it_either(tmp_path: Path) -> None:
    paths = Paths(home_at(tmp_path).home, tmp_path / "project/aidaemon.toml")
    with pytest.raises(ConfigError, match=r"aidaemon\.toml is in it"):
        resolve_workspace(paths, str(tmp_path / "project"))
