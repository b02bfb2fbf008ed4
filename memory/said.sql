-- What was said in conversations. `marks`: a word that stands for the session. `pairs`:
-- neighbouring signs of scripts without blanks. Instants are microseconds, UTC.

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
    private INTEGER NOT NULL,
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

-- What is the owner's is found by itself, what others said only where it is asked for.
CREATE VIRTUAL TABLE own_words USING fts5 (
    text, pairs, marks,
    content = 'said',
    content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER own_added AFTER INSERT ON said WHEN new.own = 1 BEGIN
    INSERT INTO own_words (rowid, text, pairs, marks)
    VALUES (new.id, new.text, new.pairs, new.marks);
END;

CREATE TRIGGER own_removed AFTER DELETE ON said WHEN old.own = 1 BEGIN
    INSERT INTO own_words (own_words, rowid, text, pairs, marks)
    VALUES ('delete', old.id, old.text, old.pairs, old.marks);
END;

CREATE VIRTUAL TABLE other_words USING fts5 (
    text, pairs, marks,
    content = 'said',
    content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER other_added AFTER INSERT ON said WHEN new.own = 0 BEGIN
    INSERT INTO other_words (rowid, text, pairs, marks)
    VALUES (new.id, new.text, new.pairs, new.marks);
END;

CREATE TRIGGER other_removed AFTER DELETE ON said WHEN old.own = 0 BEGIN
    INSERT INTO other_words (other_words, rowid, text, pairs, marks)
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

