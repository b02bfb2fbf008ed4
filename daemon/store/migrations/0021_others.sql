-- Who but the owner has written in a conversation: looked at before each turn that may recall the owner's memories.
CREATE INDEX inbox_of_others ON inbox (session) WHERE role <> 'owner';
-- And whether it is a group, where messages have ids to answer to.
CREATE INDEX inbox_of_groups ON inbox (session) WHERE message_id <> '';
