CREATE TABLE facts (
    rowid INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    category TEXT NOT NULL DEFAULT '',
    key TEXT NOT NULL DEFAULT '',
    text TEXT NOT NULL,
    sameness TEXT NOT NULL,
    at TEXT NOT NULL,
    source TEXT NOT NULL,
    turn TEXT NOT NULL DEFAULT '',
    session TEXT NOT NULL DEFAULT '',
    label TEXT NOT NULL CHECK (label IN ('trusted', 'untrusted')),
    state TEXT NOT NULL CHECK (state IN ('active', 'pending', 'rejected')),
    tainted_by TEXT NOT NULL DEFAULT '',
    private INTEGER NOT NULL DEFAULT 1,
    audience TEXT NOT NULL DEFAULT 'owner',
    owned INTEGER NOT NULL DEFAULT 1,
    valid_from TEXT,
    valid_to TEXT,
    supersedes TEXT NOT NULL DEFAULT '',
    approved_by TEXT NOT NULL DEFAULT '',
    approved_at TEXT
) STRICT;

CREATE INDEX facts_at ON facts (at);
CREATE INDEX facts_state ON facts (state, session);
CREATE UNIQUE INDEX facts_same ON facts (sameness, state) WHERE valid_to IS NULL;

CREATE VIRTUAL TABLE words USING fts5 (
    text,
    content = 'facts',
    content_rowid = 'rowid',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER facts_added AFTER INSERT ON facts WHEN new.state = 'active' BEGIN
    INSERT INTO words (rowid, text) VALUES (new.rowid, new.text);
END;

CREATE TRIGGER facts_approved AFTER UPDATE OF state ON facts
WHEN new.state = 'active' AND old.state <> 'active' BEGIN
    INSERT INTO words (rowid, text) VALUES (new.rowid, new.text);
END;

CREATE TRIGGER facts_removed AFTER DELETE ON facts WHEN old.state = 'active' BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.rowid, old.text);
END;

PRAGMA user_version = 3;
