-- Schedules, and each time that one was due: a key occurs once, so that nothing is done twice.

CREATE TABLE schedules (
    n         INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    name      TEXT NOT NULL,
    origin    TEXT NOT NULL,
    rule      TEXT NOT NULL,
    zone      TEXT NOT NULL,
    prompt    TEXT NOT NULL,
    session   TEXT NOT NULL,
    agent     TEXT NOT NULL,
    misfire   TEXT NOT NULL,
    oneshot   INTEGER NOT NULL,
    jitter_s  INTEGER NOT NULL,
    until     INTEGER,
    condition TEXT NOT NULL,
    sender    TEXT NOT NULL,
    role      TEXT NOT NULL,
    label     TEXT NOT NULL,
    turn      TEXT NOT NULL,
    made_at   INTEGER NOT NULL,
    state     TEXT NOT NULL,
    due       INTEGER,
    fires_at  INTEGER,
    seen      TEXT NOT NULL,
    trouble   TEXT NOT NULL
);
CREATE UNIQUE INDEX schedules_by_name ON schedules (name) WHERE state <> 'removed';
CREATE INDEX schedules_to_fire ON schedules (fires_at) WHERE state = 'active' AND fires_at IS NOT NULL;

CREATE TABLE occurrences (
    n        INTEGER PRIMARY KEY,
    schedule TEXT NOT NULL,
    key      TEXT NOT NULL,
    due      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    state    TEXT NOT NULL,
    turn     TEXT NOT NULL,
    detail   TEXT NOT NULL,
    UNIQUE (schedule, key)
);
