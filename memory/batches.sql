-- The words of what is added are indexed in batches, by the program.
DROP TRIGGER own_added;
DROP TRIGGER other_added;

PRAGMA user_version = 11;
