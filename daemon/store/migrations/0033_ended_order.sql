-- In which order turns ended, whatever the clock said: who reads the journal on goes by it.

ALTER TABLE turns ADD COLUMN ended_n INTEGER;

UPDATE turns SET ended_n = found.number FROM (
    SELECT id, ROW_NUMBER() OVER (ORDER BY ended_at, n) AS number FROM turns WHERE ended_at IS NOT NULL
) AS found WHERE found.id = turns.id;

CREATE INDEX turns_in_order ON turns (ended_n);
