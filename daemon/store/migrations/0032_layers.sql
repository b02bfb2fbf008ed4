-- Commands work on layers now. What one of before had begun to change in the workspace when its daemon was killed is
-- not known, so nothing there is the owner's until /trust.

INSERT INTO file_labels (path, label, turn, scope)
    SELECT '""', 'untrusted', '', 'tree' WHERE EXISTS (SELECT 1 FROM running_commands WHERE clean = 0)
    ON CONFLICT (path) DO UPDATE SET label = 'untrusted', scope = 'tree';

DROP TABLE running_commands;
