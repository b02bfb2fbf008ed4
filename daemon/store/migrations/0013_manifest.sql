-- A good label is for one content of a file; '' for those of before, and for bad ones.

ALTER TABLE file_labels ADD COLUMN digest TEXT NOT NULL DEFAULT '';

-- Whether a command and all that was there when it began could be trusted.
ALTER TABLE running_commands ADD COLUMN clean INTEGER NOT NULL DEFAULT 0;
