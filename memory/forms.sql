-- The words of facts are found in other forms, too: `forms_of` is ours. What was said is read
-- again in the background: `unformed` has the sittings that are left.
ALTER TABLE facts ADD COLUMN forms TEXT NOT NULL DEFAULT '';
UPDATE facts SET forms = forms_of(text);

DROP TRIGGER facts_added;
DROP TRIGGER facts_approved;
DROP TRIGGER facts_removed;
DROP TABLE words;

CREATE VIRTUAL TABLE words USING fts5 (
    text, forms,
    content = 'facts',
    content_rowid = 'rowid',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

INSERT INTO words (rowid, text, forms)
SELECT rowid, text, forms FROM facts WHERE state = 'active';

CREATE TRIGGER facts_added AFTER INSERT ON facts WHEN new.state = 'active' BEGIN
    INSERT INTO words (rowid, text, forms) VALUES (new.rowid, new.text, new.forms);
END;

CREATE TRIGGER facts_approved AFTER UPDATE OF state ON facts
WHEN new.state = 'active' AND old.state <> 'active' BEGIN
    INSERT INTO words (rowid, text, forms) VALUES (new.rowid, new.text, new.forms);
END;

CREATE TRIGGER facts_removed AFTER DELETE ON facts WHEN old.state = 'active' BEGIN
    INSERT INTO words (words, rowid, text, forms)
    VALUES ('delete', old.rowid, old.text, old.forms);
END;

CREATE TABLE unformed (
    sitting INTEGER PRIMARY KEY
) STRICT;

INSERT INTO unformed SELECT id FROM sittings;

PRAGMA user_version = 10;
