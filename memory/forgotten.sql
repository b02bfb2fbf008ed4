-- Turns whose words are to be gone; `done`: from the journal, too.
CREATE TABLE forgotten (
    turn TEXT PRIMARY KEY,
    done INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX forgotten_open ON forgotten (turn) WHERE done = 0;

-- Words that are to be gone wherever they stand, once `turn` has ended; then the row goes.
-- `name`: of a person.
CREATE TABLE forgotten_words (
    word TEXT PRIMARY KEY,
    name INTEGER NOT NULL,
    turn TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX said_own_speaker ON said (speaker) WHERE own = 1;

PRAGMA user_version = 8;
