-- What each sender but the owner has brought in on a day (UTC): [limits] and strangers_per_day hold over a restart.
CREATE TABLE intake (
    sender TEXT PRIMARY KEY,
    day    TEXT NOT NULL,
    size   INTEGER NOT NULL,
    count  INTEGER NOT NULL
) WITHOUT ROWID;
