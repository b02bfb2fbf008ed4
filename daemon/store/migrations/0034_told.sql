-- What was shown in a chat by work that began by itself, and its model was not told yet: noted = 2.
CREATE INDEX outbox_told ON outbox (session, n) WHERE noted = 2;
