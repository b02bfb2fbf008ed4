CREATE TABLE facts (
    rowid INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    sameness TEXT NOT NULL UNIQUE,
    at TEXT NOT NULL,
    source TEXT NOT NULL,
    label TEXT NOT NULL CHECK (label IN ('trusted', 'untrusted')),
    owned INTEGER NOT NULL DEFAULT 1
) STRICT;

CREATE INDEX facts_at ON facts (at);

CREATE VIRTUAL TABLE words USING fts5 (
    text,
    content = 'facts',
    content_rowid = 'rowid',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER facts_added AFTER INSERT ON facts BEGIN
    INSERT INTO words (rowid, text) VALUES (new.rowid, new.text);
END;

CREATE TRIGGER facts_removed AFTER DELETE ON facts BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.rowid, old.text);
END;

PRAGMA user_version = 2;
