-- What was shown in a chat, for its model: when it was sent; the message that it went out in (n), and
-- how many characters at the beginning of that one's text are its own; who set it to be told, '' for
-- words that may be a stranger's. What waited to be told until now was marked too freely.
ALTER TABLE outbox ADD COLUMN sent_at INTEGER;
ALTER TABLE outbox ADD COLUMN joined_to INTEGER;
ALTER TABLE outbox ADD COLUMN own_length INTEGER;
ALTER TABLE outbox ADD COLUMN role TEXT;
UPDATE outbox SET noted = 1 WHERE noted = 2;
