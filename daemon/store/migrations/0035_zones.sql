-- The time zones of people other than the owner, whose own is in the config.
CREATE TABLE zones (
    person TEXT PRIMARY KEY,
    zone   TEXT NOT NULL
) WITHOUT ROWID;
