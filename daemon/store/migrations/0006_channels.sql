-- Messages of chat platforms: who wrote them, what came with them, and what to answer to; why a delivery failed (A13, A14, F1).

ALTER TABLE inbox ADD COLUMN role TEXT NOT NULL DEFAULT 'owner';
ALTER TABLE inbox ADD COLUMN attachments TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox ADD COLUMN message_id TEXT NOT NULL DEFAULT '';
CREATE INDEX inbox_by_state ON inbox (state);
CREATE INDEX inbox_of_session ON inbox (session);
CREATE INDEX sessions_of_channel ON sessions (channel) WHERE root = '';

ALTER TABLE outbox ADD COLUMN error TEXT NOT NULL DEFAULT '';
DROP INDEX outbox_by_state;
CREATE INDEX outbox_by_state ON outbox (state, channel);
CREATE INDEX outbox_of_chat ON outbox (channel, chat);

CREATE INDEX approvals_by_token ON approvals (token_hash);

ALTER TABLE loops ADD COLUMN role TEXT NOT NULL DEFAULT 'owner';
