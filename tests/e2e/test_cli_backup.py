"""`aidaemon backup` as a real process."""

import gzip
import sqlite3
import stat
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.command_line import aidaemon


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "skills" / "tea").mkdir(parents=True)
    (home / "skills" / "tea" / "SKILL.md").write_text("boil water\n")
    (home / "config.toml").write_text("[agent]\nmax_iterations = 3\n")
    (home / "config.toml.lastgood").write_text("")
    (home / "secrets.toml").write_text('openai = "sk-hunter2"\n')
    (home / "secrets.toml").chmod(0o600)
    for name in ("journal.db", "memory.db"):
        with closing(sqlite3.connect(home / name)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE notes (text TEXT)")
            database.executemany(
                "INSERT INTO notes VALUES (?)", [(f"note {i} " * 50,) for i in range(200)]
            )
            database.commit()
    return home


def create(home: Path, target: Path, *more: str) -> Path:
    done = aidaemon("backup", "create", str(target), *more, home=home)
    assert done.returncode == 0, done.stderr
    assert str(target) in done.stdout
    return target


def content(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: stream.read() for member in tar if (stream := tar.extractfile(member))}


def rewrite(archive: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in files.items():
            place = archive.parent / "piece"
            place.write_bytes(data)
            tar.add(place, name)


def test_a_backup_holds_everything_but_the_secrets_and_only_the_owner_can_read_it(
    home: Path, tmp_path: Path
):
    archive = create(home, tmp_path / "b.tar.gz")
    names = {
        "manifest.json",
        "config.toml",
        "config.toml.lastgood",
        "journal.db",
        "memory.db",
        "skills/tea/SKILL.md",
    }
    assert set(content(archive)) == names
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert aidaemon("backup", "verify", str(archive)).returncode == 0


def test_the_secrets_come_along_when_asked_for(home: Path, tmp_path: Path):
    assert (
        b"hunter2" in content(create(home, tmp_path / "b.tar.gz", "--with-secrets"))["secrets.toml"]
    )


def test_what_is_unpacked_by_hand_is_private_too(home: Path, tmp_path: Path):
    with tarfile.open(create(home, tmp_path / "b.tar.gz", "--with-secrets")) as tar:
        assert {member.name: member.mode for member in tar} == dict.fromkeys(tar.getnames(), 0o600)


def test_a_backup_made_under_a_writer_is_of_one_moment(home: Path, tmp_path: Path):
    with closing(sqlite3.connect(home / "journal.db")) as writer:
        writer.execute("INSERT INTO notes VALUES ('committed, still in the write-ahead log')")
        writer.commit()
        writer.execute("INSERT INTO notes VALUES ('not committed')")
        archive = create(home, tmp_path / "b.tar.gz")
        writer.rollback()
    (tmp_path / "copy.db").write_bytes(content(archive)["journal.db"])
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("SELECT count(*) FROM notes").fetchone() == (201,)


def test_without_a_name_it_is_named_after_the_time_and_lies_here(home: Path, tmp_path: Path):
    done = aidaemon("backup", "create", home=home, cwd=tmp_path)
    [made] = tmp_path.glob("aidaemon-*.tar.gz")
    assert (done.returncode, str(made) in done.stdout) == (0, True)


def test_a_file_that_is_there_is_never_overwritten(home: Path, tmp_path: Path):
    target = tmp_path / "b.tar.gz"
    target.write_text("mine")
    done = aidaemon("backup", "create", str(target), home=home)
    assert (done.returncode, target.read_text(), "exists already" in done.stderr) == (
        1,
        "mine",
        True,
    )


def test_an_empty_home_is_told_and_nothing_is_left_behind(tmp_path: Path):
    done = aidaemon("backup", "create", str(tmp_path / "b.tar.gz"), home=tmp_path / "none")
    assert (done.returncode, "nothing to back up" in done.stderr, list(tmp_path.iterdir())) == (
        1,
        True,
        [],
    )


def test_a_damaged_database_is_no_backup(home: Path, tmp_path: Path):
    (home / "journal.db").write_bytes(b"this is not a database" * 400)
    done = aidaemon("backup", "create", str(tmp_path / "b.tar.gz"), home=home)
    assert (done.returncode, list(tmp_path.glob("*.tar.gz"))) == (1, [])
    assert "not a database" in done.stderr and "Traceback" not in done.stderr


def test_verify_names_what_was_changed_what_is_missing_and_what_was_slipped_in(
    home: Path, tmp_path: Path
):
    archive = create(home, tmp_path / "b.tar.gz")
    files = content(archive)
    files["config.toml"] += b"# changed\n"
    del files["skills/tea/SKILL.md"]
    rewrite(archive, {**files, "skills/evil.md": b"x"})
    done = aidaemon("backup", "verify", str(archive))
    assert done.returncode == 1
    told = {
        "config.toml: was changed",
        "skills/tea/SKILL.md: is missing",
        "skills/evil.md: is not in the manifest",
    }
    assert all(line in done.stderr for line in told), done.stderr


def test_verify_looks_into_the_databases(home: Path, tmp_path: Path):
    archive = create(home, tmp_path / "b.tar.gz")
    files = content(archive)
    files["journal.db"] = files["journal.db"][:8192] + b"\xff" * 4096 + files["journal.db"][12288:]
    rewrite(archive, files)
    assert (
        "journal.db: the database is damaged" in aidaemon("backup", "verify", str(archive)).stderr
    )


@pytest.mark.parametrize("data", [b"", b"not gzip", gzip.compress(b"not tar", mtime=0), None])
def test_what_is_no_whole_backup_is_said_to_be_none(home: Path, tmp_path: Path, data: bytes | None):
    archive = create(home, tmp_path / "b.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-2000] if data is None else data)
    done = aidaemon("backup", "verify", str(archive))
    assert done.returncode == 1
    assert str(archive) in done.stderr and "Traceback" not in done.stderr
