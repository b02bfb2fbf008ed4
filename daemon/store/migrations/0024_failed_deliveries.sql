-- When a delivery failed for good, until the owner has seen it; and whether the model was told of an answer that failed (F1).
ALTER TABLE outbox ADD COLUMN failed_at INTEGER;
CREATE INDEX outbox_failed ON outbox (failed_at) WHERE failed_at IS NOT NULL;
UPDATE outbox SET noted = 1 WHERE state = 'failed';
CREATE INDEX outbox_untold ON outbox (session) WHERE state = 'failed' AND noted = 0;
