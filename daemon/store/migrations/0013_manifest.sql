-- A good label is for one content of a file; '' for those of before, and for bad ones.

ALTER TABLE file_labels ADD COLUMN digest TEXT NOT NULL DEFAULT '';

-- Whether a command and all that was there when it began could be trusted.
ALTER TABLE running_commands ADD COLUMN clean INTEGER NOT NULL DEFAULT 0;

-- What file tools wrote last, and no old label calls untrusted, was trusted, and stays so.
INSERT OR IGNORE INTO file_labels (path, label, turn, scope, digest)
    SELECT path, 'trusted', turn, 'file', new FROM file_versions AS one
    WHERE undone = 0 AND new <> ''
    AND NOT EXISTS (SELECT 1 FROM file_versions WHERE path = one.path AND name > one.name AND undone = 0)
    AND NOT EXISTS (SELECT 1 FROM file_labels WHERE label = 'untrusted' AND (path IN ('""', one.path)
        OR substr(one.path, 1, length(path)) = substr(path, 1, length(path) - 1) || '/'));
