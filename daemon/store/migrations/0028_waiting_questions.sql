-- A question in state 'waiting' is put to people when others are answered; whether they know of it.

ALTER TABLE approvals ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
