-- Sums of a day in place of a row for each model call: a start reads few rows. Fewer indexes: each costs a page for each commit.

CREATE TABLE daily_usage (
    day           INTEGER NOT NULL,
    session       TEXT NOT NULL,
    provider      TEXT NOT NULL,
    model         TEXT NOT NULL,
    calls         INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    usd           REAL NOT NULL,
    unpriced      INTEGER NOT NULL,
    PRIMARY KEY (day, session, provider, model)
) WITHOUT ROWID;
INSERT INTO daily_usage SELECT at / 86400000000, session, provider, model, COUNT(*), SUM(input_tokens), SUM(output_tokens),
    SUM(cached_tokens), COALESCE(SUM(usd), 0.0), COUNT(*) - COUNT(usd) FROM usage GROUP BY 1, 2, 3, 4;
DROP TABLE usage;

-- What people let a day cost beyond its limit, and what was reserved for calls that were cut off.
CREATE TABLE daily_totals (
    day           INTEGER PRIMARY KEY,
    raised_tokens INTEGER NOT NULL DEFAULT 0,
    raised_usd    REAL NOT NULL DEFAULT 0,
    lost_tokens   INTEGER NOT NULL DEFAULT 0,
    lost_usd      REAL NOT NULL DEFAULT 0
);
INSERT INTO daily_totals (day, raised_tokens, raised_usd)
    SELECT at / 86400000000, SUM(tokens), SUM(usd) FROM day_raises GROUP BY 1;
DROP TABLE day_raises;

-- The reservation of the model call that is open; of an ended turn it is lost.
ALTER TABLE turns ADD COLUMN reserved_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN reserved_usd REAL NOT NULL DEFAULT 0;

CREATE TEMP TABLE open_calls AS
    WITH calls AS (
        SELECT turn, seq, kind, LEAD(CASE WHEN kind <> 'ModelFailed' OR NOT json_valid(payload)
            OR json_extract(payload, '$.error') IN ('auth', 'billing', 'not_found', 'bad_request', 'rate_limit', 'overloaded', 'context_too_long') THEN kind END)
            OVER (PARTITION BY turn ORDER BY seq) AS following,
            LEAD(seq) OVER (PARTITION BY turn ORDER BY seq) AS next
        FROM events WHERE kind IN ('ModelAsked', 'Consulting', 'ModelReplied', 'Consulted', 'ModelFailed'))
    SELECT e.turn, e.at / 86400000000 AS day, calls.next IS NULL AND t.ended_at IS NULL AS is_open,
        COALESCE(json_extract(e.payload, '$.reserved_tokens'), 0) AS tokens,
        COALESCE(json_extract(e.payload, '$.reserved_usd'), 0.0) AS usd
    FROM calls JOIN events AS e ON e.turn = calls.turn AND e.seq = calls.seq JOIN turns AS t ON t.id = e.turn
    WHERE calls.kind IN ('ModelAsked', 'Consulting') AND json_valid(e.payload)
        AND COALESCE(calls.following, '') NOT IN ('ModelReplied', 'Consulted', 'ModelFailed');
UPDATE turns SET (reserved_tokens, reserved_usd) = (SELECT tokens, usd FROM open_calls WHERE turn = turns.id AND is_open)
    WHERE id IN (SELECT turn FROM open_calls WHERE is_open);
INSERT INTO daily_totals (day, lost_tokens, lost_usd)
    SELECT day, SUM(tokens), SUM(usd) FROM open_calls WHERE NOT is_open GROUP BY day
    ON CONFLICT (day) DO UPDATE SET lost_tokens = excluded.lost_tokens, lost_usd = excluded.lost_usd;
DROP TABLE open_calls;

-- How often a worker took the turn of a message up at the same progress.
ALTER TABLE inbox ADD COLUMN progress INTEGER;
ALTER TABLE inbox ADD COLUMN attempts REAL NOT NULL DEFAULT 0;
UPDATE inbox SET (progress, attempts) = (SELECT progress, attempts FROM attempts WHERE turn = inbox.turn)
    WHERE turn IN (SELECT turn FROM attempts);
DROP TABLE attempts;

ALTER TABLE lanes RENAME TO leases;

DROP INDEX inbox_waiting;
DROP INDEX inbox_by_state;
DROP INDEX inbox_of_session;
CREATE INDEX inbox_open ON inbox (state, session) WHERE state IN ('new', 'ordered');
DROP INDEX turns_by_end;
CREATE INDEX turns_open ON turns (session) WHERE ended_at IS NULL;
DROP INDEX outbox_by_state;
CREATE INDEX outbox_unsent ON outbox (channel) WHERE state IN ('new', 'sending', 'uncertain');
DROP INDEX grants_of_session;
