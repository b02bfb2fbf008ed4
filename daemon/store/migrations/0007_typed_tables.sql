-- A table for each kind of fact in place of the key/value table.

-- Channels: how far each was read, updates that could not be read, drafts and buttons on screen, reactions.
CREATE TABLE cursors (
    channel TEXT PRIMARY KEY,
    cursor  TEXT NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO cursors SELECT name, value FROM kept WHERE kind = 'cursor';

CREATE TABLE unreadable_updates (
    n    INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    at   INTEGER NOT NULL,
    why  TEXT NOT NULL,
    raw  TEXT NOT NULL
);
INSERT OR IGNORE INTO unreadable_updates (name, at, why, raw)
    SELECT name, COALESCE(CAST(strftime('%s', json_extract(value, '$.at')) AS INTEGER), 0) * 1000000,
        COALESCE(json_extract(value, '$.why'), ''), COALESCE(json_extract(value, '$.raw'), '')
    FROM kept WHERE kind = 'unreadable' AND json_valid(value) ORDER BY json_extract(value, '$.at');

CREATE TABLE drafts (
    turn    TEXT PRIMARY KEY,
    message TEXT NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO drafts SELECT name, value FROM kept WHERE kind = 'draft';

-- A question that stands in a chat with buttons.
ALTER TABLE outbox ADD COLUMN buttons INTEGER NOT NULL DEFAULT 0;
UPDATE outbox SET buttons = 1 WHERE turn || '/' || part IN (SELECT name FROM kept WHERE kind = 'buttons');
CREATE INDEX outbox_with_buttons ON outbox (turn) WHERE buttons = 1;

-- What a person was last shown of the waiting questions: a JSON object.
CREATE TABLE shown_questions (
    session TEXT NOT NULL,
    person  TEXT NOT NULL,
    shown   TEXT NOT NULL,
    PRIMARY KEY (session, person)
) WITHOUT ROWID;
INSERT OR IGNORE INTO shown_questions SELECT json_extract(name, '$[0]'), json_extract(name, '$[1]'), value
    FROM kept WHERE kind = 'questions_shown' AND json_valid(name) AND json_extract(name, '$[1]') IS NOT NULL;

CREATE TABLE reactions (
    n      INTEGER PRIMARY KEY,
    turn   TEXT NOT NULL,
    sender TEXT NOT NULL,
    emoji  TEXT NOT NULL,
    UNIQUE (turn, sender)
);
INSERT OR IGNORE INTO reactions (turn, sender, emoji) SELECT kept.name, one.key, one.value
    FROM kept, json_each(CASE WHEN json_valid(kept.value) THEN kept.value ELSE '{}' END) AS one WHERE kept.kind = 'feedback';

-- People who were let in by a code, codes that wait, wrong codes, strangers who were answered; where owners are, names to show.
CREATE TABLE people (
    name  TEXT PRIMARY KEY,
    role  TEXT NOT NULL,
    since INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO people SELECT name, json_extract(value, '$.role'),
        COALESCE(CAST(strftime('%s', json_extract(value, '$.since')) AS INTEGER), 0) * 1000000
    FROM kept WHERE kind = 'person' AND json_valid(value) AND json_extract(value, '$.role') IS NOT NULL;

CREATE TABLE pairing_codes (
    digest  TEXT PRIMARY KEY,
    role    TEXT NOT NULL,
    channel TEXT NOT NULL,
    expires INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO pairing_codes SELECT name, json_extract(value, '$[0]'), json_extract(value, '$[1]'),
        CAST(strftime('%s', json_extract(value, '$[2]')) AS INTEGER) * 1000000
    FROM kept WHERE kind = 'pairing' AND json_valid(value) AND strftime('%s', json_extract(value, '$[2]')) IS NOT NULL;

CREATE TABLE wrong_codes (
    n      INTEGER PRIMARY KEY,
    person TEXT NOT NULL,
    at     INTEGER NOT NULL
);
INSERT OR IGNORE INTO wrong_codes (person, at) SELECT kept.name, CAST(strftime('%s', one.value) AS INTEGER) * 1000000
    FROM kept, json_each(CASE WHEN json_valid(kept.value) THEN kept.value ELSE '[]' END) AS one
    WHERE kept.kind = 'pairing_wrong' AND strftime('%s', one.value) IS NOT NULL;

CREATE TABLE strangers (
    name TEXT PRIMARY KEY,
    at   INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO strangers SELECT name, CAST(strftime('%s', value) AS INTEGER) * 1000000
    FROM kept WHERE kind = 'stranger' AND strftime('%s', value) IS NOT NULL;

CREATE TABLE owner_chats (
    channel TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    person  TEXT NOT NULL,
    at      INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO owner_chats
    SELECT name, substr(rest, 1, instr(rest, ' ') - 1), substr(rest, instr(rest, ' ') + 1), at FROM (
        SELECT name, CAST(strftime('%s', substr(value, 1, instr(value, ' ') - 1)) AS INTEGER) * 1000000 AS at,
            substr(value, instr(value, ' ') + 1) AS rest
        FROM kept WHERE kind = 'owners_place')
    WHERE at IS NOT NULL AND instr(rest, ' ') > 0;

CREATE TABLE display_names (
    person TEXT PRIMARY KEY,
    name   TEXT NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO display_names SELECT name, value FROM kept WHERE kind = 'called';

-- Files of the workspace: labels, former versions, commands that run. Paths are JSON strings, for they need not be text.
CREATE TABLE file_labels (
    path  TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    turn  TEXT NOT NULL,
    scope TEXT NOT NULL
) WITHOUT ROWID;
INSERT OR REPLACE INTO file_labels
    SELECT value -> '$.path', value ->> '$.label', value ->> '$.turn', value ->> '$.scope'
    FROM kept WHERE kind = 'file' AND json_valid(value);

CREATE TABLE file_versions (
    name    TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    turn    TEXT NOT NULL,
    call_id TEXT NOT NULL,
    path    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    old     TEXT NOT NULL,
    new     TEXT NOT NULL,
    mode    INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    label   TEXT NOT NULL,
    undoes  TEXT NOT NULL,
    undone  INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO file_versions
    SELECT name, value ->> '$.session', value ->> '$.turn', value ->> '$.call_id', value -> '$.path',
        CAST(strftime('%s', value ->> '$.at') AS INTEGER) * 1000000, value ->> '$.old', value ->> '$.new',
        value ->> '$.mode', value ->> '$.size', value ->> '$.label', COALESCE(value ->> '$.undoes', ''), COALESCE(value ->> '$.undone', 0)
    FROM kept WHERE kind = 'undo' AND json_valid(value);

CREATE TABLE running_commands (
    name  TEXT PRIMARY KEY,
    at_ns INTEGER NOT NULL,
    turn  TEXT NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO running_commands SELECT name, value ->> '$.at_ns', value ->> '$.turn'
    FROM kept WHERE kind = 'command' AND json_valid(value);

-- Policies: pinned rules, whose numbers are never used again; the tools that MCP servers may offer.
CREATE TABLE rules (
    n         INTEGER PRIMARY KEY AUTOINCREMENT,
    said      TEXT NOT NULL,
    matcher   TEXT NOT NULL,
    session   TEXT NOT NULL,
    sender    TEXT NOT NULL,
    confirmed INTEGER NOT NULL
);
INSERT OR IGNORE INTO rules SELECT CAST(name AS INTEGER),
        CASE WHEN json_valid(value) THEN COALESCE(json_extract(value, '$.said'), value) ELSE value END,
        CASE WHEN json_valid(value) THEN COALESCE(json_extract(value, '$.guard'), '') ELSE '' END,
        CASE WHEN json_valid(value) THEN COALESCE(json_extract(value, '$.session'), '') ELSE '' END,
        CASE WHEN json_valid(value) THEN COALESCE(json_extract(value, '$.by'), '') ELSE '' END,
        CASE WHEN json_valid(value) THEN COALESCE(json_extract(value, '$.confirmed'), 0) ELSE 0 END
    FROM kept WHERE kind = 'rule';
INSERT OR IGNORE INTO rules SELECT CAST(value AS INTEGER), '', '', '', '', 0 FROM kept
    WHERE kind = 'rule-last' AND CAST(value AS INTEGER) NOT IN (SELECT n FROM rules);
DELETE FROM rules WHERE n NOT IN (SELECT CAST(name AS INTEGER) FROM kept WHERE kind = 'rule');

CREATE TABLE mcp_pins (
    server TEXT PRIMARY KEY,
    pins   TEXT NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO mcp_pins SELECT name, value FROM kept WHERE kind = 'mcp';

DROP TABLE kept;
