-- Which command left a stranger's file; and standing permissions of before, which were bound to the files that a
-- command names, ask once more.

ALTER TABLE file_labels ADD COLUMN maker TEXT NOT NULL DEFAULT '';

UPDATE grants SET binds = '{"": "before"}' WHERE binds != '' AND tool = 'shell';
