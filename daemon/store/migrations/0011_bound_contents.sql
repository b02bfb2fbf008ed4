-- A yes is for the content of what runs, too: digests by path, as JSON; '' where nothing of the workspace runs.

ALTER TABLE approvals ADD COLUMN binds TEXT NOT NULL DEFAULT '';
ALTER TABLE grants ADD COLUMN binds TEXT NOT NULL DEFAULT '';
