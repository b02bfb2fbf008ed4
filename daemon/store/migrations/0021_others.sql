-- Who but the owner has written in a conversation: looked at before each turn that may recall the owner's memories.
CREATE INDEX inbox_of_others ON inbox (session) WHERE role <> 'owner';
