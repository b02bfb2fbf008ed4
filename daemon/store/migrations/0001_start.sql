-- The journal (DESIGN 5). Instants are integers: microseconds since 1970, UTC. `n` is the order of arrival.

CREATE TABLE inbox (
    n           INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    channel     TEXT NOT NULL,
    account     TEXT NOT NULL,
    external_id TEXT NOT NULL,
    session     TEXT NOT NULL,
    sender      TEXT NOT NULL,
    body        TEXT NOT NULL,
    label       TEXT NOT NULL,
    turn        TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    steers      TEXT NOT NULL,
    state       TEXT NOT NULL,
    UNIQUE (channel, account, external_id)
);
CREATE INDEX inbox_of_turn ON inbox (turn);
CREATE INDEX inbox_waiting ON inbox (session) WHERE state = 'new';

CREATE TABLE sessions (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    channel    TEXT NOT NULL,
    chat       TEXT NOT NULL,
    label      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    agent      TEXT NOT NULL,
    model      TEXT NOT NULL,
    effort     TEXT NOT NULL,
    paused     INTEGER NOT NULL,
    cleared_at INTEGER
);

CREATE TABLE lanes (
    session TEXT PRIMARY KEY,
    owner   TEXT NOT NULL,
    epoch   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE turns (
    n             INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    session       TEXT NOT NULL,
    parent        TEXT NOT NULL,
    input_id      TEXT NOT NULL,
    state         TEXT NOT NULL,
    label         TEXT NOT NULL,
    started_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    stop_reason   TEXT,
    detail        TEXT NOT NULL,
    reply         TEXT NOT NULL,
    iterations    INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    usd           REAL
);
CREATE INDEX turns_of_session ON turns (session);
CREATE INDEX turns_by_end ON turns (ended_at, session);

-- A turn that has not begun may have been attempted too, so this is no column of turns.
CREATE TABLE attempts (
    turn     TEXT PRIMARY KEY,
    progress INTEGER NOT NULL,
    attempts INTEGER NOT NULL
) WITHOUT ROWID;

-- A turn that somebody stopped and that has not ended yet; it may not have begun either.
CREATE TABLE cancels (
    turn TEXT PRIMARY KEY,
    why  TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE events (
    turn    TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    version INTEGER NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (turn, seq)
) WITHOUT ROWID;

CREATE TABLE approvals (
    n           INTEGER PRIMARY KEY,
    turn        TEXT NOT NULL,
    call_id     TEXT NOT NULL,
    session     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    arguments   TEXT NOT NULL,
    args_hash   TEXT NOT NULL,
    effect      TEXT NOT NULL,
    label       TEXT NOT NULL,
    token_hash  TEXT NOT NULL,
    asked_at    INTEGER NOT NULL,
    expires     INTEGER NOT NULL,
    state       TEXT NOT NULL,
    answer      TEXT,
    answered_by TEXT NOT NULL,
    reason      TEXT NOT NULL,
    UNIQUE (turn, call_id)
);
CREATE INDEX approvals_by_state ON approvals (state);

CREATE TABLE grants (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    session    TEXT NOT NULL,
    tool       TEXT NOT NULL,
    args_hash  TEXT NOT NULL,
    arguments  TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX grants_of_session ON grants (session);

CREATE TABLE outbox (
    n                   INTEGER PRIMARY KEY,
    turn                TEXT NOT NULL,
    part                INTEGER NOT NULL,
    session             TEXT NOT NULL,
    channel             TEXT NOT NULL,
    chat                TEXT NOT NULL,
    kind                TEXT NOT NULL,
    body                TEXT NOT NULL,
    created_at          INTEGER NOT NULL,
    state               TEXT NOT NULL,
    platform_message_id TEXT NOT NULL,
    attempts            INTEGER NOT NULL,
    UNIQUE (turn, part)
);
CREATE INDEX outbox_by_state ON outbox (state);

CREATE TABLE usage (
    n             INTEGER PRIMARY KEY,
    provider      TEXT NOT NULL,
    model         TEXT NOT NULL,
    session       TEXT NOT NULL,
    turn          TEXT NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    usd           REAL,
    at            INTEGER NOT NULL
);
CREATE INDEX usage_by_time ON usage (at);
