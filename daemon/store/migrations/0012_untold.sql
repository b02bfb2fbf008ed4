-- What the owner of a home of before has yet to be told, once: by name.
CREATE TABLE untold (name TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO untold (name) SELECT 'daily_usd' WHERE EXISTS (SELECT 1 FROM turns);
