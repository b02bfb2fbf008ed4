-- What was said in conversations. `marks` are words to choose rows by: whose they are, and the
-- session's. `pairs`: neighbouring signs of scripts without blanks. Instants are microseconds, UTC.

CREATE TABLE sittings (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    ended INTEGER NOT NULL,
    size INTEGER NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX sittings_open ON sittings (session) WHERE closed = 0;
CREATE INDEX sittings_session ON sittings (session);

CREATE TABLE said (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    sitting INTEGER NOT NULL REFERENCES sittings (id),
    place INTEGER NOT NULL,
    speaker TEXT NOT NULL,
    role TEXT NOT NULL,
    label TEXT NOT NULL,
    own INTEGER NOT NULL,
    at INTEGER NOT NULL,
    asks INTEGER NOT NULL,
    dated INTEGER NOT NULL,
    text TEXT NOT NULL,
    pairs TEXT NOT NULL,
    marks TEXT NOT NULL
) STRICT;

CREATE INDEX said_sitting ON said (sitting, place);
CREATE INDEX said_own ON said (own) WHERE own = 1;
CREATE INDEX said_speaker ON said (speaker);

CREATE VIRTUAL TABLE said_words USING fts5 (
    text, pairs, marks,
    content = 'said',
    content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER said_added AFTER INSERT ON said BEGIN
    INSERT INTO said_words (rowid, text, pairs, marks)
    VALUES (new.id, new.text, new.pairs, new.marks);
END;

CREATE TRIGGER said_removed AFTER DELETE ON said BEGIN
    INSERT INTO said_words (said_words, rowid, text, pairs, marks)
    VALUES ('delete', old.id, old.text, old.pairs, old.marks);
END;

-- The words of closed sittings. It keeps no text: who deletes has to know it.
CREATE VIRTUAL TABLE sitting_words USING fts5 (
    text, pairs, marks,
    content = '',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TABLE state (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 4;
