-- What is shown to every turn of the owner's.
ALTER TABLE facts ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;

CREATE INDEX facts_pinned ON facts (at) WHERE pinned = 1;

PRAGMA user_version = 6;
