-- What is the same for many rows stands once: who spoke, and what stands for the session. `said` is
-- all of it together, as it was before; the indexes of words read it as their content.
CREATE TABLE speakers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    label TEXT NOT NULL,
    own INTEGER NOT NULL,
    UNIQUE (name, role, label, own)
) STRICT;

INSERT INTO speakers (name, role, label, own) SELECT DISTINCT speaker, role, label, own FROM said;

ALTER TABLE sittings ADD COLUMN marks TEXT NOT NULL DEFAULT '';
UPDATE sittings SET marks = coalesce((SELECT marks FROM said WHERE sitting = sittings.id), '');

CREATE TABLE spans (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    sitting INTEGER NOT NULL REFERENCES sittings (id),
    place INTEGER NOT NULL,
    speaker INTEGER NOT NULL REFERENCES speakers (id),
    own INTEGER NOT NULL,
    private INTEGER NOT NULL,
    at INTEGER NOT NULL,
    asks INTEGER NOT NULL,
    dated INTEGER NOT NULL,
    text TEXT NOT NULL,
    pairs TEXT NOT NULL
) STRICT;

INSERT INTO spans
SELECT said.id, key, sitting, place, speakers.id, said.own, private, at, asks, dated, text, pairs
FROM said CROSS JOIN speakers USING (role, label, own)
WHERE name = speaker ORDER BY said.id;

DROP TABLE said;

CREATE INDEX spans_sitting ON spans (sitting, place);
CREATE INDEX spans_speaker ON spans (speaker);

CREATE VIEW said AS
SELECT spans.id, key, sitting, session, place, name AS speaker, role, label, spans.own, private, at,
    asks, dated, text, pairs, marks
FROM spans
CROSS JOIN speakers ON speakers.id = spans.speaker
CROSS JOIN sittings ON sittings.id = sitting;

CREATE TRIGGER own_added AFTER INSERT ON spans WHEN new.own = 1 BEGIN
    INSERT INTO own_words (rowid, text, pairs, marks)
    SELECT id, text, pairs, marks FROM said WHERE id = new.id;
END;

CREATE TRIGGER own_removed BEFORE DELETE ON spans WHEN old.own = 1 BEGIN
    INSERT INTO own_words (own_words, rowid, text, pairs, marks)
    SELECT 'delete', id, text, pairs, marks FROM said WHERE id = old.id;
END;

CREATE TRIGGER other_added AFTER INSERT ON spans WHEN new.own = 0 BEGIN
    INSERT INTO other_words (rowid, text, pairs, marks)
    SELECT id, text, pairs, marks FROM said WHERE id = new.id;
END;

CREATE TRIGGER other_removed BEFORE DELETE ON spans WHEN old.own = 0 BEGIN
    INSERT INTO other_words (other_words, rowid, text, pairs, marks)
    SELECT 'delete', id, text, pairs, marks FROM said WHERE id = old.id;
END;

-- The signs of whole texts, which are read at start, stand apart from those of their words.
CREATE TABLE pooled (
    id INTEGER PRIMARY KEY REFERENCES spans (id),
    own INTEGER NOT NULL,
    signs BLOB NOT NULL
) STRICT;

INSERT INTO pooled SELECT id, own, pooled FROM vectors ORDER BY id;

ALTER TABLE vectors RENAME TO old_vectors;

CREATE TABLE vectors (
    id INTEGER PRIMARY KEY REFERENCES spans (id),
    pairs BLOB NOT NULL
) STRICT;

INSERT INTO vectors SELECT id, pairs FROM old_vectors ORDER BY id;

DROP TABLE old_vectors;

ALTER TABLE unembedded RENAME TO old_unembedded;

CREATE TABLE unembedded (
    id INTEGER PRIMARY KEY REFERENCES spans (id)
) STRICT;

INSERT INTO unembedded SELECT id FROM old_unembedded;

DROP TABLE old_unembedded;

CREATE TRIGGER vectors_added AFTER INSERT ON spans BEGIN
    INSERT INTO unembedded VALUES (new.id);
END;

CREATE TRIGGER vectors_removed AFTER DELETE ON spans BEGIN
    DELETE FROM pooled WHERE id = old.id;
    DELETE FROM vectors WHERE id = old.id;
    DELETE FROM unembedded WHERE id = old.id;
END;

PRAGMA user_version = 9;
