"""One daemon per home directory (K26); what needs other processes is in behaviour/test_journal_faults.py."""

import fcntl
import os
from pathlib import Path
from threading import Timer

import pytest

from daemon.core.errors import HomeInUse
from daemon.store.lock import is_locked, lock_home


def test_the_lock_names_its_owner_and_is_private(tmp_path: Path) -> None:
    with lock_home(tmp_path):
        path = tmp_path / "daemon.lock"
        assert path.read_text() == f"{os.getpid()}\n"
        assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == ""


def test_a_second_lock_is_refused_with_what_to_do_and_harms_nothing(tmp_path: Path) -> None:
    with lock_home(tmp_path):
        with (
            pytest.raises(HomeInUse, match=f"process {os.getpid()}.*nothing was changed.*--home"),
            lock_home(tmp_path),
        ):
            pass
        with pytest.raises(HomeInUse), lock_home(tmp_path):
            pass
    with lock_home(tmp_path):
        pass


def test_a_file_left_by_a_dead_process_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "daemon.lock").write_text("999999\n")
    with lock_home(tmp_path):
        assert (tmp_path / "daemon.lock").read_text() == f"{os.getpid()}\n"


def test_a_home_that_is_not_there_yet_is_made_private(tmp_path: Path) -> None:
    with lock_home(tmp_path / "home"):
        assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_the_lock_is_freed_when_the_work_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lock_home(tmp_path):
        raise ZeroDivisionError
    with lock_home(tmp_path):
        pass


def test_whether_a_home_is_in_use_can_be_seen_without_taking_or_making_anything(
    tmp_path: Path,
) -> None:
    assert not is_locked(tmp_path / "nowhere") and not (tmp_path / "nowhere").exists()
    with lock_home(tmp_path):
        assert is_locked(tmp_path)
        assert (tmp_path / "daemon.lock").read_text() == f"{os.getpid()}\n"
    assert not is_locked(tmp_path)


def test_who_only_looks_does_not_make_a_daemon_refuse_to_start(tmp_path: Path) -> None:
    (tmp_path / "daemon.lock").touch()
    looking = os.open(tmp_path / "daemon.lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    Timer(0.01, os.close, (looking,)).start()
    with lock_home(tmp_path):
        assert is_locked(tmp_path)
