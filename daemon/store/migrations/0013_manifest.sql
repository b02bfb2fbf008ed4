-- A good label is for one content of a file; '' for those of before, and for bad ones.

ALTER TABLE file_labels ADD COLUMN digest TEXT NOT NULL DEFAULT '';
