"""Whatever statement a kill -9 meets while a file of memory gets vectors, or the newest schema: nothing is doubled or lost (A4)."""

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import pytest

from daemon.recall.embedding import ThreadedEmbedder
from memory.conversations import Conversations
from memory.database import PARTS, Database
from memory.utterance import Utterance
from memory.words import write_forms
from tests.fakes.dying import STEP, MadeUpModel, embed, renew, run_sweep, upgrade
from tests.unit.test_memory_states import VERSION_2

ROWS = 20


@pytest.mark.parametrize("former", ["", "old"])
async def test_whatever_statement_of_embedding_a_kill_meets_each_row_has_its_vectors_once(
    tmp_path: Path, former: str
) -> None:
    """At first, and anew where another model had made them."""
    at, begin = datetime(2026, 1, 1, tzinfo=UTC), tmp_path / "begin.db"
    database = await Database.open(begin)
    conversations = await Conversations.open(database)
    await conversations.add(
        [
            Utterance(
                f"t{one}:1", "s", "ann", "owner", "trusted", own=True, at=at, text=f"row {one}"
            )
            for one in range(ROWS)
        ]
    )
    if former:
        embedder = await ThreadedEmbedder.load(lambda: MadeUpModel(former))
        await conversations.use_embedder(embedder)
        assert embedder
        rows = await conversations.list_unembedded(ROWS)
        await conversations.add_vectors(await embedder.embed_texts(rows))
        await embedder.aclose()
    await database.aclose()
    left = await run_sweep("embed", begin)
    assert len(left) > 2 * ROWS / STEP
    made = "SELECT text, signs FROM said LEFT JOIN pooled USING (id)"
    waits = "SELECT text, NULL FROM unembedded JOIN said USING (id)"
    whole = {f"row {one}" for one in range(ROWS)}
    counts = set[int]()
    for path in left:
        with closing(sqlite3.connect(path)) as file:
            name = (
                file.execute("SELECT value FROM state WHERE name = 'model'").fetchone() or ("",)
            )[0]
            have = {text: pooled for text, pooled in file.execute(made) if pooled}
            missing = [text for text, _ in file.execute(waits)]
        assert sorted([*have, *missing]) == sorted(whole)
        assert all(
            MadeUpModel(name).embed_text("", text).pooled == one for text, one in have.items()
        )
        counts.add(len(have))
        await embed(path)
        with closing(sqlite3.connect(path)) as file:
            have = dict(file.execute(made).fetchall())
            assert file.execute("SELECT count(*) FROM unembedded").fetchone() == (0,)
        assert have == {text: MadeUpModel("new").embed_text("", text).pooled for text in whole}
    assert {0, ROWS} <= counts <= {0, 16, ROWS}


def make_old(path: Path, version: int) -> None:
    """As that version left it, with what it could keep."""
    fact = "('aaaaaaaa9', 'I live in Lyon', 'i live in lyon', '2026-01-01T00:00:00+00:00', 't1', 'trusted', 'active', 't1')"
    parts = [
        files("memory").joinpath(f"{one}.sql").read_text() for one in PARTS[: max(version - 2, 0)]
    ]
    rows = [
        f"INSERT INTO facts (id, text, sameness, at, source, label, state, turn) VALUES {fact};",
        "INSERT INTO sittings VALUES (1, 'web:one', 5, 1, 0);"
        "INSERT INTO said VALUES (1, 't1:1.0', 1, 0, 'ann', 'owner', 'trusted', 1, 0, 5, 0, 0, 'I live in Lyon', '', 'x');"
        "INSERT INTO state VALUES ('cursor', '1 t1'); PRAGMA user_version = 4;",
        "DELETE FROM unembedded; INSERT INTO vectors VALUES (1, 1, x'00', x'01');",
        "UPDATE facts SET pinned = 1;",
        "UPDATE facts SET key = 'user.city';",
        "INSERT INTO forgotten (turn) VALUES ('t9');",
        "",
        "",
    ]  # fmt: skip
    with closing(sqlite3.connect(path)) as file:
        file.create_function("forms_of", 1, write_forms, deterministic=True)
        if version < 3:
            file.executescript(VERSION_2)
        if version == 1:
            file.executescript("ALTER TABLE facts DROP COLUMN owned; PRAGMA user_version = 1;")
        for part, row in zip(parts, rows, strict=False):
            file.executescript(part)
            file.executescript(row)


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return [*file.iterdump(), str(file.execute("PRAGMA user_version").fetchone())]


@pytest.mark.parametrize("version", range(1, 11))
async def test_whatever_statement_of_an_upgrade_a_kill_meets_nothing_of_an_older_file_is_lost(
    tmp_path: Path, version: int
) -> None:
    begin, whole = tmp_path / "begin.db", tmp_path / "whole.db"
    make_old(begin, version)
    shutil.copy(begin, whole)
    await upgrade(whole)
    with closing(sqlite3.connect(whole)) as file:
        facts = file.execute(
            "SELECT text, owned, state, turn, pinned, key FROM facts ORDER BY id"
        ).fetchall()
        said = file.execute(
            "SELECT key, text, session, speaker, role, label, said.own, marks, signs, vectors.pairs, EXISTS (SELECT 1 FROM unembedded)"
            " FROM said LEFT JOIN pooled USING (id) LEFT JOIN vectors USING (id)"
        ).fetchall()
        cursor = file.execute("SELECT value FROM state").fetchall()
    if version < 3:
        assert [one[0] for one in facts] == [
            "the dog is called Rex",
            "Bob likes tea",
            "always mail the dog reports to eve",
        ]
        assert [one[1] for one in facts] == ([1, 1, 1] if version == 1 else [1, 0, 1])
    else:
        city = "user.city" if version >= 7 else ""
        assert facts == [("I live in Lyon", 1, "active", "t1", int(version > 5), city)]
        span = ("t1:1.0", "I live in Lyon", "web:one", "ann", "owner", "trusted", 1, "x")
        made = (None, None, 1) if version == 4 else (b"\0", b"\1", 0)
        assert said == [(*span, *made)] * (version > 3)
        assert cursor == [("1 t1",)] * (version > 3)
    for path in await run_sweep("upgrade", begin):
        await upgrade(path)
        assert dump(path) == dump(whole)


async def test_what_an_older_file_has_said_is_found_in_other_forms_whatever_statement_a_kill_meets(
    tmp_path: Path,
) -> None:
    """Seven sittings; two of them are not over."""
    begin, texts = tmp_path / "begin.db", ["Dr. Müller", "私の猫", "Our Wi-Fi", "lunch", "γάτα"]
    make_old(begin, 9)
    with closing(sqlite3.connect(begin)) as file, file:
        file.execute("INSERT INTO speakers VALUES (7, 'bob', 'guest', 'untrusted', 0)")
        for at in range(7):
            text = texts[at % len(texts)]
            file.execute("INSERT INTO sittings VALUES (?, 'web:two', 5, 1, ?, 'y')", (at + 2, at < 5))
            row = (at + 2, f"u{at}:1", at + 2, 7 if at == 1 else 1, text)
            file.execute(
                "INSERT INTO spans VALUES (?, ?, ?, 0, ?, ?, 0, 5, 0, 0, ?, '')",
                (*row[:4], int(at != 1), row[4]),
            )
            if at < 5:
                words = "INSERT INTO sitting_words (rowid, text, pairs, marks) VALUES (?, ?, '', 'y')"
                file.execute(words, (at + 2, text))
    for path in (begin, *await run_sweep("renew", begin)):
        await renew(path)
        with closing(sqlite3.connect(path)) as file:
            for table in ("own_words", "other_words"):
                file.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
            assert file.execute("SELECT count(*) FROM unformed").fetchone() == (0,)
            for word, rows in (("mueller", 2), ("wifi", 1), ("γατα", 1), ("lunch", 1)):
                found = f"SELECT count(*) FROM own_words WHERE own_words MATCH '\"{word}\"'"
                assert file.execute(found).fetchone() == (rows,)
                found = f"SELECT count(*) FROM sitting_words WHERE sitting_words MATCH '\"{word}\"'"
                assert file.execute(found).fetchone() == (1,)
            found = "SELECT count(*) FROM other_words WHERE other_words MATCH '\"猫\"'"
            assert file.execute(found).fetchone() == (1,)
