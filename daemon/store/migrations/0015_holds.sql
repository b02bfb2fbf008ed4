-- What of the owner's a file may hold that was read before a tainted turn wrote it.

ALTER TABLE file_labels ADD COLUMN holds TEXT NOT NULL DEFAULT '[]';
