-- Standing permissions have bounds: a number of uses, an end, places. What was allowed before ends 90 days after it was.

ALTER TABLE grants ADD COLUMN uses_left INTEGER;
ALTER TABLE grants ADD COLUMN expires INTEGER;
ALTER TABLE grants ADD COLUMN paths TEXT NOT NULL DEFAULT '';
ALTER TABLE grants ADD COLUMN uses INTEGER NOT NULL DEFAULT 0;
UPDATE grants SET expires = created_at + 7776000000000;

-- A call uses a permission once, however often it is judged: the journal itself refuses a second use.
CREATE TABLE grant_uses (
    call     TEXT PRIMARY KEY,
    grant_id TEXT NOT NULL
) WITHOUT ROWID;

ALTER TABLE approvals ADD COLUMN preview TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN paths TEXT NOT NULL DEFAULT '[]';
