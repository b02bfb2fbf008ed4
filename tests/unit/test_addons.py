"""Late imports by name: our own table, then entry points."""

import sys
from pathlib import Path

import pytest

from daemon import addons
from daemon.core.errors import ConfigError


@pytest.fixture
def add_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed distribution with a provider of its own, one that lacks a package, and one that points nowhere."""
    (tmp_path / "acme_models.py").write_text("class Acme:\n    pass\n")
    (tmp_path / "acme_broken.py").write_text("import a_package_nobody_has\n")
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    points = [
        "acme = acme_models:Acme",
        "broken = acme_broken:Acme",
        "nowhere = acme_models:Nobody",
        "openai = acme_models:Acme",
    ]
    (info / "entry_points.txt").write_text("[aidaemon.providers]\n" + "\n".join(points) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "acme"


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, table in addons.BUILTIN.items() for name in table]
)
def test_everything_in_our_own_table_is_there(kind: str, name: str):
    assert addons.load_class(kind, name)


def test_an_add_on_brings_its_own_and_never_takes_the_place_of_ours(add_on: str):
    assert getattr(addons.load_class("providers", add_on), "__name__", "") == "Acme"
    assert (
        getattr(addons.load_class("providers", "openai"), "__module__", "")
        == "daemon.providers.openai"
    )
    assert addons.list_addons("providers") == ["acme", "broken", "nowhere"]


def test_a_name_that_nobody_has_is_a_config_error_with_the_nearest_one():
    with pytest.raises(ConfigError, match="nothing is named 'opanai'; did you mean 'openai'"):
        addons.load_class("providers", "opanai")
    with pytest.raises(ConfigError, match="there are: none"):
        addons.load_class("tools", "zzz")


def test_an_add_on_whose_package_is_missing_names_the_package(add_on: str):
    with pytest.raises(ConfigError, match="'broken' needs the package 'a_package_nobody_has'"):
        addons.load_class("providers", "broken")


def test_an_add_on_that_points_nowhere_says_so(add_on: str):
    with pytest.raises(ConfigError, match="there is no 'Nobody'"):
        addons.load_class("providers", "nowhere")


def test_looking_at_the_names_imports_nothing(add_on: str):
    sys.modules.pop("acme_models", None)
    addons.list_addons("providers")
    assert "acme_models" not in sys.modules
