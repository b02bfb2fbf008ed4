-- Chats that their platform gave another id: a group of Telegram becomes a supergroup. The journal keeps the first id (F1).
CREATE TABLE moved_chats (
    n       INTEGER PRIMARY KEY,
    channel TEXT NOT NULL,
    chat    TEXT NOT NULL,
    first   TEXT NOT NULL,
    at      INTEGER NOT NULL,
    UNIQUE (channel, chat)
);
