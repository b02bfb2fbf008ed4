-- Loops (C1): one agent at one task, attempt after attempt. `learned` is a JSON list of lines, one per attempt.

CREATE TABLE loops (
    n              INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    agent          TEXT NOT NULL,
    root           TEXT NOT NULL,
    sender         TEXT NOT NULL,
    label          TEXT NOT NULL,
    message        TEXT NOT NULL,
    criterion      TEXT NOT NULL,
    value          TEXT NOT NULL,
    max_iterations INTEGER NOT NULL,
    started_at     INTEGER NOT NULL,
    stage          TEXT NOT NULL,
    attempt        INTEGER NOT NULL,
    learned        TEXT NOT NULL,
    final_output   TEXT NOT NULL,
    error          TEXT NOT NULL,
    ended_at       INTEGER
);

-- One loop per agent at a time (C7): the journal itself refuses a second.
CREATE UNIQUE INDEX loops_at_work ON loops (agent) WHERE ended_at IS NULL;
