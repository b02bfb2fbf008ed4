-- What of a message are not its sender's own words: pasted, piped, passed on or quoted text.

ALTER TABLE inbox ADD COLUMN quoted TEXT NOT NULL DEFAULT '[]';
