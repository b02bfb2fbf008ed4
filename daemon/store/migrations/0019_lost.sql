-- What was reserved for a turn's model calls that were cut off: it counts as spent for its goal.

ALTER TABLE turns ADD COLUMN lost_usd REAL NOT NULL DEFAULT 0;
