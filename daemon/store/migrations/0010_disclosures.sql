-- What fetches after private content may have told outside, in bits: shared by a turn with all that it set to work, and by a
-- conversation for a day.
CREATE TABLE disclosures (
    call    TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    turn    TEXT NOT NULL,
    day     INTEGER NOT NULL,
    domain  TEXT NOT NULL,
    bits    REAL NOT NULL
) WITHOUT ROWID;
