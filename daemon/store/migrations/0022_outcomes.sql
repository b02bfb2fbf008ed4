-- Whether the model was told what became of a message to others; of those of before it was, or will not be.
ALTER TABLE outbox ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;
UPDATE outbox SET noted = 1 WHERE due IS NOT NULL AND state IN ('sent', 'failed', 'withdrawn');
CREATE INDEX outbox_outcomes ON outbox (n) WHERE noted = 0 AND due IS NOT NULL AND kind = 'mail';
