-- By how many lines a change made its file longer, for the last line of an answer.

ALTER TABLE file_versions ADD COLUMN lines INTEGER NOT NULL DEFAULT 0;
