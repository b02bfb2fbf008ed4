"""People who were let in by a code, codes that wait, strangers who were answered, where owners are,
names to show.
"""

from datetime import datetime, timedelta

from daemon.core.rows import OwnerChat, PairingCode, PersonRow
from daemon.store.tables.base import RowMapper, Table, to_db

PEOPLE = RowMapper(PersonRow, "people")
REMOVE_PERSON = "DELETE FROM people WHERE name = ?"
CODES = RowMapper(PairingCode, "pairing_codes")
REMOVE_CODE = "DELETE FROM pairing_codes WHERE digest = ?"
REMOVE_EXPIRED = "DELETE FROM pairing_codes WHERE expires <= ?"
ADD_WRONG = "INSERT INTO wrong_codes (person, at) VALUES (?, ?)"
COUNT_WRONG = "SELECT COUNT(*) FROM wrong_codes WHERE person = ?"
REMOVE_WRONG = "DELETE FROM wrong_codes WHERE person = ?"
REMOVE_OLD_WRONG = "DELETE FROM wrong_codes WHERE at <= ?"
GET_STRANGER = "SELECT name FROM strangers WHERE name = ? AND at > ? AND at < ?"
REMOVE_STRANGERS = "DELETE FROM strangers WHERE at <= ? OR at >= ?"
COUNT_STRANGERS = "SELECT COUNT(*) FROM strangers"
PUT_STRANGER = "INSERT OR REPLACE INTO strangers (name, at) VALUES (?, ?)"
OWNER_CHATS = RowMapper(OwnerChat, "owner_chats")
REMOVE_OWNER_CHAT = "DELETE FROM owner_chats WHERE channel = ?"
GET_NAME = "SELECT name FROM display_names WHERE person = ?"
PUT_NAME = "INSERT OR REPLACE INTO display_names (person, name) VALUES (?, ?)"
REPLACE_PERSON = "ON CONFLICT (name) DO UPDATE SET role = excluded.role, since = excluded.since"
REPLACE_CHAT = """ON CONFLICT (channel) DO UPDATE SET session = excluded.session, person =
    excluded.person,
    at = excluded.at"""


class PeopleTable(Table):
    """The people, pairing_codes, wrong_codes, strangers, owner_chats and display_names tables."""

    def get_person(self, name: str) -> PersonRow | None:
        """Somebody who was let in by a code."""
        return self._one(PEOPLE, "WHERE name = ?", name)

    def list_people(self) -> list[PersonRow]:
        """All of them, by name."""
        return self._all(PEOPLE, "ORDER BY name")

    def put_person(self, row: PersonRow) -> None:
        """Insert, or replace."""
        self._insert(PEOPLE, row, REPLACE_PERSON)

    def remove_person(self, name: str) -> bool:
        """False when nobody is known by this name."""
        return self._run(REMOVE_PERSON, name)

    def add_pairing_code(self, row: PairingCode) -> None:
        """A code that somebody may use."""
        self._insert(CODES, row, "ON CONFLICT (digest) DO NOTHING")

    def list_pairing_codes(self) -> list[PairingCode]:
        """Codes that nobody has used yet."""
        return self._all(CODES, "ORDER BY digest")

    def remove_pairing_code(self, digest: str) -> None:
        """It was used."""
        self._run(REMOVE_CODE, digest)

    def remove_stale_pairing(self, now: datetime, wrong_before: datetime) -> None:
        """Delete codes that have expired, and wrong codes that count no longer."""
        self._run(REMOVE_EXPIRED, to_db(now))
        self._run(REMOVE_OLD_WRONG, to_db(wrong_before))

    def add_wrong_code(self, person: str, at: datetime) -> None:
        """This person has sent a wrong code."""
        self._run(ADD_WRONG, person, to_db(at))

    def count_wrong_codes(self, person: str) -> int:
        """How many wrong codes this person has sent of late."""
        return self._db.execute(COUNT_WRONG, (person,)).fetchone()[0]

    def remove_wrong_codes(self, person: str) -> None:
        """They have sent the right one."""
        self._run(REMOVE_WRONG, person)

    def is_known_stranger(self, name: str, now: datetime, within: timedelta) -> bool:
        """This stranger has had an answer, less than `within` from now."""
        span = to_db(now - within), to_db(now + within)
        return self._text(GET_STRANGER, name, *span) is not None

    def add_stranger(self, name: str, now: datetime, within: timedelta, limit: int) -> bool:
        """Those who were met longer ago, or later by a clock that was set back, no longer count."""
        self._run(REMOVE_STRANGERS, to_db(now - within), to_db(now + within))
        if self._db.execute(COUNT_STRANGERS).fetchone()[0] >= limit:
            return False
        return self._run(PUT_STRANGER, name, to_db(now))

    def put_owner_chat(self, row: OwnerChat) -> None:
        """An owner was met there."""
        self._insert(OWNER_CHATS, row, REPLACE_CHAT)

    def list_owner_chats(self) -> list[OwnerChat]:
        """Where owners were met, the latest first."""
        return self._all(OWNER_CHATS, "ORDER BY at DESC, session DESC")

    def remove_owner_chat(self, channel: str) -> None:
        """No owner is there any more."""
        self._run(REMOVE_OWNER_CHAT, channel)

    def get_display_name(self, person: str) -> str:
        """What they call themselves; their own name where that is not known."""
        return self._text(GET_NAME, person) or person

    def put_display_name(self, person: str, name: str) -> None:
        """What they call themselves."""
        self._run(PUT_NAME, person, name)
