-- What a turn changed is told at its end.
CREATE INDEX file_versions_turn ON file_versions (turn);
