-- A reminder is a schedule whose text is told as it is, without a model.
ALTER TABLE schedules ADD COLUMN remind INTEGER NOT NULL DEFAULT 0;
