-- A loop that a live page started is ended when its user is away (C10), over restarts too.
ALTER TABLE loops ADD COLUMN live INTEGER NOT NULL DEFAULT 0;
