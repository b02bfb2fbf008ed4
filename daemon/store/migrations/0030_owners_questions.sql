-- Only the owner may say yes.

ALTER TABLE approvals ADD COLUMN owners INTEGER NOT NULL DEFAULT 0;
