-- A message to others than the owner leaves when it is `due`; until then its state is held, and it can become withdrawn (F8).

ALTER TABLE outbox ADD COLUMN due INTEGER;
CREATE INDEX outbox_due ON outbox (state, due) WHERE due IS NOT NULL;
