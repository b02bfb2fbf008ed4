"""What chat programs export is read as what was said, by whom and when; what is wrong is named with its place."""

import json
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from daemon.core.errors import AidaemonError
from daemon.recall.export_files import MAX_MEMBER, ExportError, read_export
from memory.rows import MAX_TEXT

CHAT = {
    "name": "Family", "type": "private_group", "id": 7,
    "messages": [
        {"id": 1, "type": "service", "date": "2025-01-02T03:04:05", "action": "create_group", "text": ""},
        {"id": 2, "type": "message", "date": "2025-01-02T03:04:05", "date_unixtime": "1735787045", "from": "Ann",
         "from_id": "user5", "text": ["See ", {"type": "link", "text": "https://example.org"}, " please"]},
        {"id": 3, "type": "message", "date": "2025-01-02T04:00:00", "from": None, "text": "Nobody's"},
        {"id": 4, "type": "message", "date": "2025-01-02T05:00:00", "from": "Bob", "text": "", "photo": "a.jpg"},
    ],
}  # fmt: skip
DISCORD = {
    "guild": {"id": "1", "name": "Club"}, "channel": {"id": "2", "name": "general"},
    "messages": [
        {"id": "9", "timestamp": "2025-03-04T05:06:07.8+01:00", "content": "Hello", "author": {"name": "eve7", "nickname": "Eve"}},
        {"id": "10", "timestamp": "2025-03-04T05:07:00+01:00", "content": "", "author": {"name": "eve7"}},
    ],
}  # fmt: skip
USERS = [{"id": "U1", "name": "ann", "real_name": "Ann B."}, {"id": "U2", "name": "bob"}]
DAY = [
    {"type": "message", "user": "U1", "text": "Lunch?", "ts": "1735787045.000200"},
    {
        "type": "message",
        "subtype": "channel_join",
        "user": "U2",
        "text": "joined",
        "ts": "1735787046.0",
    },
    {"type": "message", "user": "U2", "text": "Yes", "ts": "1735787047.000100"},
]

Said = tuple[str, str, str, str]


def read(path: Path) -> list[Said]:
    return [(one.session, one.id, one.sender, one.text) for one in read_export(path)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "export.json"


@pytest.mark.parametrize("indent", [1, None])
def test_a_chat_of_telegram_is_read(file: Path, indent: int | None) -> None:
    file.write_text(json.dumps(CHAT, indent=indent))
    said = [
        ("telegram Family", "7/2", "Ann", "See https://example.org please"),
        ("telegram Family", "7/3", "", "Nobody's"),
    ]
    assert read(file) == said
    assert next(read_export(file)).at == datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_all_chats_of_telegram_are_read(file: Path) -> None:
    file.write_text(
        json.dumps({"about": "x", "chats": {"list": [CHAT, CHAT | {"name": None, "id": 8}]}})
    )
    assert [session for session, *_ in read(file)] == ["telegram Family"] * 2 + ["telegram 8"] * 2


def test_a_channel_of_discord_is_read(file: Path) -> None:
    file.write_text(json.dumps(DISCORD, indent=2))
    assert read(file) == [("discord Club general", "9", "Eve", "Hello")]


@pytest.mark.parametrize("is_archive", [True, False])
def test_an_export_of_slack_is_read_as_archive_and_as_folder(
    tmp_path: Path, is_archive: bool
) -> None:
    files = {
        "users.json": USERS,
        "channels.json": [],
        "lunch/2025-01-02.json": DAY,
        "lunch/2025-01-03.json": [],
    }
    path = tmp_path / "slack"
    if is_archive:
        with ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, json.dumps(content))
    else:
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(json.dumps(content))
    assert read(path) == [
        ("slack lunch", "1735787045.000200", "Ann B.", "Lunch?"), ("slack lunch", "1735787047.000100", "bob", "Yes"),
    ]  # fmt: skip


def test_lines_of_json_are_read_with_blank_ones_between(file: Path) -> None:
    line = {"id": "1", "session": "s", "sender": "Ann", "at": "2025-01-02T03:04:05", "text": "one"}
    file.write_text("\n" + json.dumps(line) + "\n\n" + json.dumps(line | {"id": "2"}) + "\n")
    assert read(file) == [("s", "1", "Ann", "one"), ("s", "2", "Ann", "one")]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (json.dumps({"name": "x", "messages": [{"id": 1, "type": "message", "text": 5, "date": "2025"}]}), "not as it is exported"),
        (json.dumps({"channel": {}, "messages": [{"id": "1", "content": "x", "timestamp": "no"}]}), "at: "),
        ('{"id": "1"}', "line 1: session: Field required"),
        ('{"messages": [', "line 1: "),
        ("no json", "line 1: "),
        (b"\xff\xfe", "cannot be read"),
        ("[]", "line 1: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(file: Path, content: str | bytes, told: str) -> None:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(AidaemonError, match=told):
        read(file)


def test_a_folder_without_users_is_no_export_of_slack(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"users\.json"):
        read(tmp_path)


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T00:00:00Z"]
)
def test_a_time_that_not_all_calendars_have_is_named(file: Path, at: str) -> None:
    file.write_text(json.dumps({"id": "1", "session": "s", "at": at, "text": "hi"}))
    with pytest.raises(ExportError, match="1971 to 9998"):
        read(file)


def test_half_a_sign_is_a_question_mark(file: Path) -> None:
    author = {"name": "a\ud800"}
    one = {
        "id": "1",
        "timestamp": "2026-01-01T00:00:00Z",
        "content": "half \ud83d sign",
        "author": author,
    }
    file.write_text(json.dumps(DISCORD | {"messages": [one]}))
    assert read(file) == [("discord Club general", "1", "a?", "half ? sign")]
    file.write_text(
        json.dumps(
            {"id": "1", "session": "s", "at": "2026-01-01T00:00:00Z", "text": "half \ud83d sign"}
        )
    )
    assert read(file) == [("s", "1", "", "half ? sign")]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"messages": ' + "[" * 200_000,
        json.dumps(
            CHAT
            | {"messages": [{"id": 1, "type": "message", "date_unixtime": "9" * 20, "text": "x"}]}
        ),
    ],
    ids=["deep line", "deep document", "time out of range"],
)
def test_a_file_that_no_program_wrote_is_named_and_nothing_breaks(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(ExportError, match=r"export\.json"):
        read(file)


def test_an_archive_of_slack_with_odd_users_is_named(tmp_path: Path) -> None:
    (tmp_path / "slack").mkdir()
    (tmp_path / "slack" / "users.json").write_text('{"a": 1}')
    with pytest.raises(ExportError, match=r"users\.json"):
        read(tmp_path / "slack")


@pytest.mark.parametrize("ts", ["inf", "1e300", "-1e300"])
def test_a_day_of_slack_with_an_odd_time_is_named(tmp_path: Path, ts: str) -> None:
    folder = tmp_path / "slack" / "general"
    folder.mkdir(parents=True)
    (tmp_path / "slack" / "users.json").write_text("[]")
    (folder / "1.json").write_text(json.dumps([{"type": "message", "ts": ts, "text": "x"}]))
    with pytest.raises(ExportError, match=r"1\.json"):
        read(tmp_path / "slack")


def test_a_member_of_an_archive_that_is_far_too_large_is_refused(file: Path) -> None:
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr("users.json", " " * (MAX_MEMBER + 1))
    with pytest.raises(ExportError, match="more than 100 MB"):
        read(file)


def test_a_long_text_is_cut_to_what_is_kept_and_a_byte_order_mark_is_none(file: Path) -> None:
    line = {"id": "1", "session": "s", "at": "2026-01-01T00:00:00Z", "text": "x" * 900_000}
    file.write_text(json.dumps(line), encoding="utf-8-sig")
    [(_, _, _, text)] = read(file)
    assert len(text) == MAX_TEXT
