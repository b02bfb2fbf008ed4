-- What of the owner's own a text may tell, beside its label; a text of the model's is nobody's word.
-- A session's latest turn names all that was read in it, as far as that is kept.

ALTER TABLE turns ADD COLUMN private TEXT NOT NULL DEFAULT '[]';
ALTER TABLE inbox ADD COLUMN private TEXT NOT NULL DEFAULT '[]';
ALTER TABLE inbox ADD COLUMN composed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE loops ADD COLUMN private TEXT NOT NULL DEFAULT '[]';
ALTER TABLE schedules ADD COLUMN private TEXT NOT NULL DEFAULT '[]';
ALTER TABLE schedules ADD COLUMN composed INTEGER NOT NULL DEFAULT 0;
UPDATE inbox SET composed = 1 WHERE channel IN ('agent', 'loop');
UPDATE turns SET private = (SELECT json_group_array(DISTINCT CASE kind
        WHEN 'UserSaid' THEN 'memory' WHEN 'ChildReturned' THEN 'another agent'
        ELSE payload ->> '$.tool' END)
    FROM events JOIN turns AS earlier ON earlier.id = events.turn
    WHERE (earlier.id = turns.id OR (earlier.session = turns.session AND turns.n =
        (SELECT MAX(n) FROM turns AS latest WHERE latest.session = turns.session)))
    AND json_valid(payload)
    AND CASE kind WHEN 'ChildReturned' THEN 1
        WHEN 'ToolFinished' THEN payload ->> '$.public' IS NOT 1
        WHEN 'UserSaid' THEN json_array_length(payload, '$.memories') > 0 END);
UPDATE turns SET private = '["more"]' WHERE state = 'pruned';
UPDATE loops SET private = '["more"]' WHERE attempt > 1;
UPDATE schedules SET private = '["more"]', composed = 1 WHERE origin = 'model' AND label <> 'trusted';
