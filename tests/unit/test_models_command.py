"""The catalogue of embedded models and `aidaemon model`."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import ops
from daemon.cli import model as command
from daemon.cli.parsing import parse
from daemon.core.errors import AidaemonError, ConfigError, UsageError
from daemon.ops.models import (
    CATALOGUE,
    DEFAULT_MODEL,
    EmbeddedModel,
    WheelParts,
    models_dir,
)
from daemon.ops.own_models import find_model, find_model_file
from tests.unit.test_models_fetch import BYTES, Host, host


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIDAEMON_MODELS", str(tmp_path))
    return tmp_path


def aidaemon_model(*words: str) -> int:
    return parse(["model", *words])()


def put_here(folder: Path) -> Path:
    """A file of the right size; sparse, so that it costs nothing."""
    model = find_model(DEFAULT_MODEL)
    with model.path(folder).open("wb") as file:
        file.truncate(model.size)
    return model.path(folder)


def test_the_default_model_is_in_the_catalogue_with_its_licence():
    assert find_model(DEFAULT_MODEL).licence == "Apache-2.0"
    [licence] = (Path(ops.__file__).parent / "licences").glob("*.txt")
    text = licence.read_text()
    assert "Copyright 2024 Alibaba Cloud" in text
    assert "Apache License" in text


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_the_parts_of_a_model_add_up_to_its_size(model: EmbeddedModel):
    for source in model.sources:
        if isinstance(source, WheelParts):
            assert (
                -(-model.size // source.part_size) == len(source.sha256) == len(set(source.sha256))
            )


def test_models_lie_in_the_home_folder_unless_said_otherwise():
    assert models_dir({"AIDAEMON_MODELS": "/models"}) == Path("/models")
    assert models_dir({}) == Path.home() / ".aidaemon" / "models"


def test_list_tells_size_licence_and_whether_it_is_here(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert aidaemon_model("list") == 0
    out = capsys.readouterr().out
    assert out.startswith("qwen2.5-coder-1.5b, 1.12 GB, licence Apache-2.0, not here\n")
    assert "needs 3 GiB of free memory; sha256 cc324af0" in out
    assert "\n  from https://huggingface.co/" in out
    path = put_here(folder)
    assert aidaemon_model("list") == 0
    assert str(path) in capsys.readouterr().out


def test_rm_deletes_the_file_and_what_is_left_of_a_download(folder: Path):
    path = put_here(folder)
    path.with_name(f"{path.name}.partial").write_bytes(b"x")
    assert aidaemon_model("rm", DEFAULT_MODEL) == 0
    assert list(folder.iterdir()) == []
    with pytest.raises(AidaemonError, match="nothing was deleted"):
        aidaemon_model("rm", DEFAULT_MODEL)


def test_an_unknown_model_is_wrong_usage_that_names_the_known_ones(folder: Path):
    for action in ("pull", "rm"):
        with pytest.raises(
            UsageError, match=r"no embedded model 'gpt'; there is: qwen2\.5-coder-1\.5b"
        ):
            aidaemon_model(action, "gpt")


def test_a_model_that_is_not_here_names_the_command_that_fetches_it(folder: Path):
    with pytest.raises(
        ConfigError, match=r"fetch it with: aidaemon model pull qwen2\.5-coder-1\.5b"
    ):
        find_model_file(DEFAULT_MODEL)
    path = put_here(folder)
    assert find_model_file(DEFAULT_MODEL) == path


def test_a_model_that_is_here_is_not_fetched(folder: Path, capsys: pytest.CaptureFixture[str]):
    path = put_here(folder)
    assert command.ensure_model(DEFAULT_MODEL) == path
    assert capsys.readouterr().err == ""


def test_the_progress_goes_to_stderr_in_plain_lines_where_there_is_no_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    with command.show_progress(200) as watcher:
        watcher.say("fetching")
        for done in range(0, 201, 2):
            watcher.advance(done)
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert lines[0] == "fetching"
    assert lines[-1].startswith("100%")
    assert 15 < len(lines) <= 21


def test_on_a_terminal_a_bar_is_drawn(tmp_path: Path):
    code = (
        "from daemon.cli.model import show_progress\n"
        "with show_progress(2_000_000) as watcher:\n"
        "    watcher.say('fetching it')\n"
        "    watcher.advance(2_000_000)\n"
    )
    master, slave = os.openpty()
    ran = subprocess.run(
        [sys.executable, "-c", code], stderr=slave, stdout=subprocess.PIPE, check=True, timeout=60
    )
    os.close(slave)
    drawn = os.read(master, 65536).decode()
    os.close(master)
    assert "fetching it" in drawn
    assert "2.0/2.0 MB" in drawn
    assert ran.stdout == b""


def test_nothing_heavy_is_imported_for_the_command_line_itself():
    code = "import sys, daemon.cli.model; print([name for name in ('rich', 'pydantic', 'urllib.request') if name in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout == "[]\n"


def test_a_model_of_ones_own_is_added_listed_and_pulled_by_its_pinned_hash(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    digest = hashlib.sha256(BYTES).hexdigest()
    with host(Host()) as served:
        assert aidaemon_model("add", "tiny", served.address, digest, "--licence", "MIT") == 0
        assert "added tiny, 0.00 GB, licence MIT" in capsys.readouterr().out
        assert aidaemon_model("list") == 0
        assert f"sha256 {digest}\n  from {served.address}" in capsys.readouterr().out
        assert aidaemon_model("pull", "tiny") == 0
    assert find_model_file("tiny").read_bytes() == BYTES
    assert (folder / "models.toml").read_text().count("[") == 1


def test_a_file_with_another_hash_is_not_accepted(folder: Path):
    with host(Host()) as served:
        aidaemon_model("add", "tiny", served.address, "0" * 64)
        with pytest.raises(AidaemonError, match="wrong SHA-256"):
            aidaemon_model("pull", "tiny")
    assert not find_model("tiny").is_present(folder)


@pytest.mark.parametrize(
    ("name", "url", "digest", "why"),
    [
        ("tiny", "http://example.org/a.gguf", "0" * 64, "begins with https://"),
        ("tiny", "file:///etc/passwd", "0" * 64, "begins with https://"),
        ("../tiny", "https://example.org/a.gguf", "0" * 64, "small letters"),
        (DEFAULT_MODEL, "https://example.org/a.gguf", "0" * 64, "new name"),
        ("tiny", "", "0" * 63, "64 hexadecimal digits"),
    ],
)
def test_what_cannot_be_added_is_refused_and_nothing_is_written(
    folder: Path, name: str, url: str, digest: str, why: str
):
    with host(Host()) as served, pytest.raises(UsageError, match=why):
        aidaemon_model("add", name, url or served.address, digest)
    assert not (folder / "models.toml").exists()


def test_a_list_that_is_damaged_names_its_file_and_key(folder: Path):
    (folder / "models.toml").write_text('[tiny]\nurl = "https://example.org"\nsize = 1\n')
    with pytest.raises(ConfigError, match=r"models\.toml: sha256: Field required"):
        find_model("tiny")
