-- What strangers' files held, also of files that are gone: the digest, of a tiny file that of its path with it.

CREATE TABLE foreign_contents (
    key  TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    turn TEXT NOT NULL
);
