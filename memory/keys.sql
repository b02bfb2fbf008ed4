-- A key names what a fact tells of whom: the newest of a key holds, the ones before it are history.
CREATE INDEX facts_key ON facts (key) WHERE key <> '';

PRAGMA user_version = 7;
