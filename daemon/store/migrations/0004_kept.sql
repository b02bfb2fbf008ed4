-- Small things that a room of the house keeps under a name of its own: labels of files, pinned rules, people, tools' pins.

CREATE TABLE kept (
    kind  TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
