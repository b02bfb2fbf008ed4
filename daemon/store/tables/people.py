"""People who were let in by a code, codes that wait, strangers who were answered, where owners are,
names to show, how much each sender has brought in.
"""

from datetime import datetime, timedelta

from daemon.core import value
from daemon.core.rows import OwnerChat, PairingCode, PersonRow
from daemon.store.tables.base import Get, Insert, List, RowMapper, Run, Table, Value, from_db

PEOPLE = RowMapper(PersonRow, "people")
REPLACE_PERSON = "ON CONFLICT (name) DO UPDATE SET role = excluded.role, since = excluded.since"
CODES = RowMapper(PairingCode, "pairing_codes")
REMOVE_STRANGERS = "DELETE FROM strangers WHERE at <= ? OR at >= ?"
PUT_STRANGER = "INSERT OR REPLACE INTO strangers (name, at) VALUES (?, ?)"
FIND_STRANGER = "SELECT name FROM strangers WHERE name = ? AND at > ? AND at < ?"
OWNER_CHATS = RowMapper(OwnerChat, "owner_chats")
REPLACE_CHAT = """ON CONFLICT (channel) DO UPDATE SET session = excluded.session, person =
    excluded.person,
    at = excluded.at"""
PUT_NAME = "INSERT OR REPLACE INTO display_names (person, name) VALUES (?, ?)"


@value
class IntakeRow:
    """What a sender has brought in on a day: characters, and how many messages or events."""

    sender: str
    day: str
    size: int
    count: int


INTAKE = RowMapper(IntakeRow, "intake")
REPLACE_INTAKE = """ON CONFLICT (sender) DO UPDATE SET day = excluded.day, size = excluded.size,
    count = excluded.count"""
LATEST_INPUTS = """SELECT channel, session, sender, received_at FROM inbox WHERE n > (SELECT max(n)
    FROM inbox) - ? AND received_at BETWEEN ? AND ? ORDER BY n"""


class PeopleTables(Table):
    """The people, pairing_codes, wrong_codes, strangers, owner_chats, display_names, zones, untold
    and intake tables."""

    get_person = Get[[str], PersonRow](PEOPLE, "WHERE name = ?")
    """Somebody who was let in by a code."""

    list_people = List[[], PersonRow](PEOPLE, "ORDER BY name")
    put_person = Insert(PEOPLE, REPLACE_PERSON)
    remove_person = Run[[str]]("DELETE FROM people WHERE name = ?")

    add_pairing_code = Insert(CODES, "ON CONFLICT (digest) DO NOTHING")
    list_pairing_codes = List[[], PairingCode](CODES, "ORDER BY digest")
    """Codes that nobody has used yet."""

    remove_pairing_code = Run[[str]]("DELETE FROM pairing_codes WHERE digest = ?")

    def remove_stale_pairing(self, now: datetime, wrong_before: datetime) -> None:
        """Delete codes that have expired, and wrong codes that count no longer."""
        self._run("DELETE FROM pairing_codes WHERE expires <= ?", now)
        self._run("DELETE FROM wrong_codes WHERE at <= ?", wrong_before)

    add_wrong_code = Run[[str, datetime]]("INSERT INTO wrong_codes (person, at) VALUES (?, ?)")
    count_wrong_codes = Value[[str], int]("SELECT COUNT(*) FROM wrong_codes WHERE person = ?")
    remove_wrong_codes = Run[[str]]("DELETE FROM wrong_codes WHERE person = ?")

    def is_known_stranger(self, name: str, now: datetime, within: timedelta) -> bool:
        """This stranger has had an answer, less than `within` from now."""
        return self._value(FIND_STRANGER, name, now - within, now + within) is not None

    def add_stranger(self, name: str, now: datetime, within: timedelta, limit: int) -> bool:
        """This stranger gets an answer; False when `limit` others have had one, less than `within`
        from now. Those who were met longer ago, or later by a clock that was set back, no longer
        count.
        """
        self._run(REMOVE_STRANGERS, now - within, now + within)
        if self._value("SELECT COUNT(*) FROM strangers") >= limit:
            return False
        return self._run(PUT_STRANGER, name, now)

    put_owner_chat = Insert(OWNER_CHATS, REPLACE_CHAT)
    list_owner_chats = List[[], OwnerChat](OWNER_CHATS, "ORDER BY at DESC, session DESC")
    """Where owners were met, the latest first."""

    remove_owner_chat = Run[[str]]("DELETE FROM owner_chats WHERE channel = ?")

    def get_display_name(self, person: str) -> str:
        """What they call themselves; their own name where that is not known."""
        return self._value("SELECT name FROM display_names WHERE person = ?", person) or person

    remove_display_name = Run[[str]]("DELETE FROM display_names WHERE person = ?")
    put_display_name = Run[[str, str]](PUT_NAME)

    get_zone = Value[[str], str]("SELECT COALESCE(MAX(zone), '') FROM zones WHERE person = ?")
    """The time zone of a person; "" for the owner's (G5)."""

    put_zone = Run[[str, str]]("INSERT OR REPLACE INTO zones (person, zone) VALUES (?, ?)")
    remove_zone = Run[[str]]("DELETE FROM zones WHERE person = ?")

    def has_untold(self, name: str) -> bool:
        """The owner of a home of before has yet to be told this."""
        return self._value("SELECT name FROM untold WHERE name = ?", name) is not None

    remove_untold = Run[[str]]("DELETE FROM untold WHERE name = ?")

    def list_latest_inputs(
        self, most: int, since: datetime, until: datetime
    ) -> list[tuple[str, str, str, datetime]]:
        """Channel, session, sender and time of the latest rows of the inbox."""
        rows = self._do(LATEST_INPUTS, most, since, until)
        return [(*words, from_db(at)) for *words, at in rows]

    put_intake = Insert(INTAKE, REPLACE_INTAKE)
    list_intake = List[[str], IntakeRow](INTAKE, "WHERE day = ?")
