"""Invitations: what an iCalendar object (RFC 5545, RFC 5546) says, in words."""

import re
from collections.abc import Sized
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

MAX_LINES, MAX_EVENTS, MAX_PEOPLE, MAX_VALUE = 5_000, 10, 30, 5_000
LINE = re.compile(r'([A-Za-z0-9-]+)((?:;(?:"[^"]*"|[^:])*+)?):(.*)', re.DOTALL)
PARAMETER = re.compile(r';([A-Za-z0-9-]+)=((?:"[^"]*"|[^;])*)')
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
DURATION = re.compile(
    r"\+?P(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,5})M)?(?:(\d{1,6})S)?)?"
)
OFFSET = re.compile(r"([+-]\d\d)(\d\d)(?:\d\d)?")
METHODS = {
    "REQUEST": "Invitation", "CANCEL": "Cancellation", "REPLY": "Answer to an invitation",
    "COUNTER": "Another time is proposed", "DECLINECOUNTER": "The proposed time is declined",
    "ADD": "Further dates of a series", "REFRESH": "Somebody asks for the invitation again",
    "PUBLISH": "Event",
}  # fmt: skip
KINDS = {
    "VEVENT": "",
    "VTODO": "task, ",
    "VJOURNAL": "note, ",
    "VFREEBUSY": "free and busy times, ",
}
ANSWERS = {"NEEDS-ACTION": "has not answered", "IN-PROCESS": "in process"}
UNREADABLE = "[A calendar file that cannot be read: it has no event]"


@dataclass(frozen=True, slots=True)
class Property:
    """A line of an object. Names of parameters are in capitals."""

    name: str
    value: str
    parameters: dict[str, str]

    @property
    def text(self) -> str:
        """Its value as text, without escapes."""
        return ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], self.value)


@dataclass(slots=True)
class Component:
    """What stands between BEGIN and END."""

    kind: str
    properties: list[Property] = field(default_factory=list)
    inner: list["Component"] = field(default_factory=list)

    def list(self, *names: str) -> list[Property]:
        """All of these names."""
        return [one for one in self.properties if one.name in names]

    def text(self, name: str) -> str:
        """The first of this name as text, "" for none."""
        return next((one.text.strip()[:MAX_VALUE] for one in self.list(name)), "")


def parse_calendar(text: str) -> list[Component]:
    """All components of an object, as they begin; a line that is none is left out."""
    found = [Component("")]
    open_ones = found[:]
    unfolded = re.sub(r"\n[ \t]", "", text.replace("\r\n", "\n").replace("\r", "\n"))
    for line in filter(None, map(LINE.match, unfolded.split("\n", MAX_LINES)[:MAX_LINES])):
        given = {name.upper(): said.replace('"', "") for name, said in PARAMETER.findall(line[2])}
        name, value = line[1].upper(), line[3]
        kind = value.strip().upper()
        if name == "BEGIN":
            found.append(Component(kind))
            open_ones[-1].inner.append(found[-1])
            open_ones.append(found[-1])
        elif name != "END":
            open_ones[-1].properties.append(Property(name, value, given))
        elif any(one.kind == kind for one in open_ones[1:]):
            while open_ones.pop().kind != kind:
                pass
    return found


def render_calendar(text: str, method: str = "") -> str:
    """What it says, in words. `method`: where the object itself does not name one."""
    found = parse_calendar(text)
    methods = (one.text("METHOD") for one in found if one.kind in ("", "VCALENDAR"))
    method = (next(filter(None, methods), "") or method).upper()
    zones = dict(_read_zone(one) for one in found if one.kind == "VTIMEZONE")
    events = [one for one in found if one.kind in KINDS]
    shown = [_render_event(one, method, zones) for one in events[:MAX_EVENTS]]
    return "\n\n".join(shown + _count_more(events, MAX_EVENTS)) or UNREADABLE


def _count_more(all_of_them: Sized, limit: int) -> list[str]:
    left = len(all_of_them) - limit
    return [f"[and {left} more]"] if left > 0 else []


def _render_event(event: Component, method: str, zones: dict[str, str]) -> str:
    def tell(name: str) -> str:
        return ", ".join(_render_stamp(one, zones) for one in event.list(name))

    status, people = event.text("STATUS").lower(), event.list("ATTENDEE")
    what = METHODS["CANCEL"] if status == "cancelled" else METHODS.get(method, "Event")
    attendees = [_render_person(one) for one in people[:MAX_PEOPLE]]
    rows = (
        ("When", _render_time(event, zones)),
        ("Of the series, only", tell("RECURRENCE-ID")),
        ("Repeats", "; ".join(one.value for one in event.list("RRULE", "RDATE"))),
        ("Except", tell("EXDATE")),
        ("Where", event.text("LOCATION")),
        ("Link", event.text("URL") or event.text("CONFERENCE")),
        ("Organizer", "; ".join(map(_render_person, event.list("ORGANIZER")))),
        ("Attendees", "; ".join(attendees + _count_more(people, MAX_PEOPLE))),
        ("Status", "" if status in ("cancelled", "confirmed") else status),
        ("Comment", event.text("COMMENT")),
    )
    head = f"[{what}: {KINDS[event.kind]}{_in_line(event.text('SUMMARY')) or 'without a title'}]"
    lines = [head, *(f"{name}: {_in_line(said)}" for name, said in rows if said)]
    return "\n".join([*lines, "", event.text("DESCRIPTION")]).strip()


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _render_person(person: Property) -> str:
    address = re.sub("^mailto:", "", person.value.strip(), flags=re.IGNORECASE)
    name, answer, role = (person.parameters.get(key, "") for key in ("CN", "PARTSTAT", "ROLE"))
    shown = f"{name.strip()} <{address}>" if name.strip() not in ("", address) else address
    told = [ANSWERS.get(answer.upper(), answer.lower())] if answer else []
    told += ["optional"] * (role.upper() == "OPT-PARTICIPANT")
    return f"{shown} ({', '.join(told)})" if told else shown


def _render_time(event: Component, zones: dict[str, str]) -> str:
    begins, ends = event.list("DTSTART"), event.list("DTEND", "DUE")
    until = _render_stamp(ends[0], zones) if ends else ""
    if not begins:
        return f"until {until}" if until else ""
    shown, duration = _render_stamp(begins[0], zones), event.text("DURATION")
    first = _read_stamp(begins[0].value)
    last = _read_stamp(ends[0].value) if ends else _add_duration(first, duration)
    if first is None or last is None:
        return f"{shown} to {until}" if until else f"{shown} {duration}".strip()
    days = last.toordinal() - first.toordinal()
    if not isinstance(first, datetime):  # it ends before the last day
        return f"{shown} to {_format(first + timedelta(days - 1))}" if days > 1 else shown
    zone = _zone_of(begins[0], zones)
    if ends and (not isinstance(last, datetime) or _zone_of(ends[0], zones) != zone):
        return f"{shown} to {until}"
    return f"{_format(first)} to {_format(last) if days else format(last, '%H:%M')}{zone}"


def _add_duration(first: date | None, duration: str) -> date | None:
    """None where there is no such day, or nothing is said."""
    if first is None or not (found := DURATION.fullmatch(duration)):
        return None
    weeks, days, hours, minutes, seconds = (int(one or 0) for one in found.groups())
    try:
        return first + timedelta(days, seconds, 0, 0, minutes, hours, weeks)
    except OverflowError:
        return None


def _format(moment: date) -> str:
    """A day, with the time where it has one."""
    return f"{moment:%A} {moment.isoformat()[:16].replace('T', ' ')}"


def _render_stamp(given: Property, zones: dict[str, str]) -> str:
    shown: list[str] = []
    for value in map(str.strip, given.value.split(",")):
        moment = _read_stamp(value)
        note = _zone_of(given, zones) if isinstance(moment, datetime) else " (all day)"
        shown.append(f"{_format(moment)}{note}" if moment else value)
    return ", ".join(shown)


def _read_stamp(value: str) -> date | None:
    """A day, or a day with a time, as it is written; None for neither."""
    try:
        return (datetime if "T" in value else date).fromisoformat(value.strip())
    except ValueError:
        return None


def _zone_of(given: Property, zones: dict[str, str]) -> str:
    if given.value.strip().endswith("Z"):
        return " UTC"
    zone = given.parameters.get("TZID", "").strip()
    return f" ({zone}{zones.get(zone, '')})" if zone else " (no zone is given)"


def _read_zone(zone: Component) -> tuple[str, str]:
    """The name of a zone, and its distances from UTC."""
    told = ""
    for kind, note in (("STANDARD", ""), ("DAYLIGHT", " in summer")):
        rules = [one.text("TZOFFSETTO") for one in zone.inner if one.kind == kind]
        if rules and (found := OFFSET.fullmatch(rules[-1])):
            told += f", UTC{found[1]}:{found[2]}{note}"
    return zone.text("TZID"), told
