-- Work of many days (G6): its own conversation, its budget, and the schedules that run there (`lane`).

CREATE TABLE goals (
    n       INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL UNIQUE,
    told    TEXT NOT NULL,
    text    TEXT NOT NULL,
    usd     REAL NOT NULL,
    made_at INTEGER NOT NULL,
    state   TEXT NOT NULL,
    note    TEXT NOT NULL
);
ALTER TABLE schedules ADD COLUMN lane TEXT NOT NULL DEFAULT '';
