-- Signs of what a model makes of a row's words: see embedder.py. `own`: as in said.
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY REFERENCES said (id),
    own INTEGER NOT NULL,
    pooled BLOB NOT NULL,
    pairs BLOB NOT NULL
) STRICT;

CREATE INDEX vectors_pooled ON vectors (id, own, pooled);

-- Rows that have none yet.
CREATE TABLE unembedded (
    id INTEGER PRIMARY KEY REFERENCES said (id)
) STRICT;

INSERT INTO unembedded SELECT id FROM said;

CREATE TRIGGER vectors_added AFTER INSERT ON said BEGIN
    INSERT INTO unembedded VALUES (new.id);
END;

CREATE TRIGGER vectors_removed AFTER DELETE ON said BEGIN
    DELETE FROM vectors WHERE id = old.id;
    DELETE FROM unembedded WHERE id = old.id;
END;

PRAGMA user_version = 5;
