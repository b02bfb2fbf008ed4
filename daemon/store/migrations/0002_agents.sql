-- Agents that work for others (A17), which agent a turn was (D6), and what people let a day cost beyond its limit (F2).

ALTER TABLE sessions ADD COLUMN root TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_of_root ON sessions (root) WHERE root <> '';

ALTER TABLE turns ADD COLUMN agent TEXT NOT NULL DEFAULT 'default';
CREATE INDEX stops_of_agent ON turns (agent, ended_at) WHERE stop_reason IS NOT NULL;

-- One call, or one step, sets one agent to work: the journal itself refuses a second.
CREATE TABLE children (
    n              INTEGER PRIMARY KEY,
    turn           TEXT NOT NULL UNIQUE,
    parent         TEXT NOT NULL,
    key            TEXT NOT NULL,
    session        TEXT NOT NULL,
    parent_session TEXT NOT NULL,
    agent          TEXT NOT NULL,
    task           TEXT NOT NULL,
    depth          INTEGER NOT NULL,
    limits         TEXT NOT NULL,
    max_chars      INTEGER NOT NULL,
    report         TEXT NOT NULL,
    done           INTEGER NOT NULL,
    UNIQUE (parent, key)
);
CREATE INDEX children_at_work ON children (parent_session) WHERE NOT done;

CREATE TABLE day_raises (
    n      INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    usd    REAL NOT NULL
);
CREATE INDEX day_raises_by_time ON day_raises (at);
