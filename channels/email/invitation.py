"""Invitations: what an iCalendar object (RFC 5545, RFC 5546) says, in words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

MAX_LINES, MAX_EVENTS, MAX_PEOPLE, MAX_VALUE = 5_000, 10, 30, 5_000
NAME = re.compile(r"[A-Za-z0-9-]{1,60}")
PARAMETER = re.compile(r';([A-Za-z0-9-]{1,60})=((?:"[^"]*"|[^";:,])*(?:,(?:"[^"]*"|[^";:,])*)*)')
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)?(Z)?)?")
DURATION = re.compile(
    r"\+?P(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,5})M)?(?:(\d{1,6})S)?)?"
)
OFFSET = re.compile(r"([+-])(\d\d)(\d\d)(?:\d\d)?")
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

    def list(self, name: str) -> list[Property]:
        """All of this name."""
        return [one for one in self.properties if one.name == name]

    def text(self, name: str) -> str:
        """The first of this name as text, "" for none."""
        return next((one.text.strip()[:MAX_VALUE] for one in self.list(name)), "")

    def walk(self) -> Iterator["Component"]:
        """It, and all that stand in it."""
        yield self
        for one in self.inner:
            yield from one.walk()


def parse_calendar(text: str) -> Component:
    """The tree of an object; a line that is none is left out."""
    root = Component("")
    open_ones = [root]
    unfolded = re.sub(r"\n[ \t]", "", text.replace("\r\n", "\n").replace("\r", "\n"))
    for line in unfolded.split("\n", MAX_LINES)[:MAX_LINES]:
        found = _read_line(line)
        if found is None:
            continue
        kind = found.value.strip().upper()
        if found.name == "BEGIN" and len(open_ones) < 10:
            open_ones[-1].inner.append(Component(kind))
            open_ones.append(open_ones[-1].inner[-1])
        elif found.name == "END":
            if kind in [one.kind for one in open_ones[1:]]:
                while open_ones.pop().kind != kind:
                    pass
        else:
            open_ones[-1].properties.append(found)
    return root


def _read_line(line: str) -> Property | None:
    name = NAME.match(line)
    if name is None:
        return None
    at, given = name.end(), dict[str, str]()
    while found := PARAMETER.match(line, at):
        given[found[1].upper()] = found[2].replace('"', "")
        at = found.end()
    _, colon, value = line[at:].partition(":")
    return Property(name[0].upper(), value, given) if colon else None


def render_calendar(text: str, method: str = "") -> str:
    """What it says, in words. `method`: where the object itself does not name one."""
    root = parse_calendar(text)
    found = list(root.walk())
    methods = [one.text("METHOD") for one in found if one.kind in ("", "VCALENDAR")]
    method = (next(filter(None, methods), "") or method).upper()
    zones = dict(map(_read_zone, (one for one in found if one.kind == "VTIMEZONE")))
    events = [one for one in found if one.kind in KINDS]
    shown = [_render_event(one, method, zones) for one in events[:MAX_EVENTS]]
    if len(events) > MAX_EVENTS:
        shown.append(f"[and {len(events) - MAX_EVENTS} more]")
    return "\n\n".join(shown) or UNREADABLE


def _render_event(event: Component, method: str, zones: dict[str, str]) -> str:
    status = event.text("STATUS").upper()
    what = METHODS.get(method, "Event")
    if status == "CANCELLED":
        what = METHODS["CANCEL"]
    series = event.list("RECURRENCE-ID")
    repeats = [one.value for one in (*event.list("RRULE"), *event.list("RDATE"))]
    rows = [
        ("When", _render_time(event, zones)),
        ("Of the series, only", "; ".join(_render_stamp(one, zones) for one in series)),
        ("Repeats", "; ".join(repeats)),
        ("Except", ", ".join(_render_stamp(one, zones) for one in event.list("EXDATE"))),
        ("Where", event.text("LOCATION")),
        ("Link", event.text("URL") or event.text("CONFERENCE")),
        ("Organizer", "; ".join(_render_person(one) for one in event.list("ORGANIZER"))),
        ("Attendees", _render_people(event.list("ATTENDEE"))),
        ("Status", status.lower() if status not in ("", "CANCELLED", "CONFIRMED") else ""),
        ("Comment", event.text("COMMENT")),
    ]
    head = f"[{what}: {KINDS[event.kind]}{_in_line(event.text('SUMMARY')) or 'without a title'}]"
    lines = [head, *(f"{name}: {_in_line(said)}" for name, said in rows if said)]
    about = event.text("DESCRIPTION")
    return "\n".join([*lines, "", about] if about else lines)


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _render_people(people: Sequence[Property]) -> str:
    names = [_render_person(one) for one in people[:MAX_PEOPLE]]
    if len(people) > MAX_PEOPLE:
        names.append(f"and {len(people) - MAX_PEOPLE} more")
    return "; ".join(names)


def _render_person(person: Property) -> str:
    scheme, _, rest = person.value.strip().partition(":")
    address = rest if scheme.casefold() == "mailto" else person.value.strip()
    name = person.parameters.get("CN", "").strip()
    shown = f"{name} <{address}>" if name and name != address else address
    answer = person.parameters.get("PARTSTAT", "").upper()
    told = [ANSWERS.get(answer, answer.lower())] if answer else []
    if person.parameters.get("ROLE", "").upper() == "OPT-PARTICIPANT":
        told.append("optional")
    return f"{shown} ({', '.join(told)})" if told else shown


def _render_time(event: Component, zones: dict[str, str]) -> str:
    begins = next(iter(event.list("DTSTART")), None)
    ends = next(iter(event.list("DTEND") or event.list("DUE")), None)
    if begins is None:
        return f"until {_render_stamp(ends, zones)}" if ends else ""
    first, last = _read_stamp(begins.value), _read_stamp(ends.value) if ends else None
    shown = _render_stamp(begins, zones)
    duration = event.text("DURATION")
    if first and not last:
        last = _add_duration(first, duration)
    if first is None or last is None:
        return f"{shown} to {ends.value}" if ends else f"{shown} {duration}".strip()
    if not isinstance(first, datetime):
        days = last.toordinal() - first.toordinal() - 1  # it ends before this day
        final = _add_duration(first, f"P{days}D") if days > 0 else None
        return f"{shown} to {final:%A} {final.isoformat()}" if final else shown
    if not isinstance(last, datetime):
        return f"{shown} to {last.isoformat()}"
    if ends and _zone_of(ends, zones) != _zone_of(begins, zones):
        return f"{shown} to {_render_stamp(ends, zones)}"
    day = "" if last.date() == first.date() else f"{last:%A} {last:%Y-%m-%d} "
    return f"{first:%A} {first:%Y-%m-%d %H:%M} to {day}{last:%H:%M}{_zone_of(begins, zones)}"


def _add_duration(first: date, duration: str) -> date | None:
    """None where there is no such day, or nothing is said."""
    if not (found := DURATION.fullmatch(duration)):
        return None
    weeks, days, hours, minutes, seconds = (int(one or 0) for one in found.groups())
    try:
        return first + timedelta(days + 7 * weeks, seconds, 0, 0, minutes, hours)
    except OverflowError:
        return None


def _render_stamp(given: Property, zones: dict[str, str]) -> str:
    shown: list[str] = []
    for value in given.value.split(","):
        read = _read_stamp(value)
        if isinstance(read, datetime):
            shown.append(f"{read:%A} {read:%Y-%m-%d %H:%M}{_zone_of(given, zones)}")
        else:
            shown.append(f"{read:%A} {read.isoformat()} (all day)" if read else value.strip())
    return ", ".join(shown)


def _read_stamp(value: str) -> date | None:
    """A day, or a day with a time, as it is written; None for neither."""
    found = STAMP.match(value.strip())
    try:
        if found is None:
            return None
        year, month, day, hour, minute, second = (int(one or 0) for one in found.groups()[:6])
        is_time = found[4] is not None
        moment = datetime(year, month, day, hour, minute, min(second, 59))
        return moment if is_time else moment.date()
    except ValueError:
        return None


def _zone_of(given: Property, zones: dict[str, str]) -> str:
    if given.value.strip().upper().endswith("Z"):
        return " UTC"
    zone = given.parameters.get("TZID", "").strip()
    offset = zones.get(zone, "")
    return f" ({zone}{offset})" if zone else " (no zone is given)"


def _read_zone(zone: Component) -> tuple[str, str]:
    """The name of a zone, and its distances from UTC."""
    told: list[str] = []
    for kind, note in (("STANDARD", ""), ("DAYLIGHT", " in summer")):
        rules = [one for one in zone.inner if one.kind == kind]
        if rules and (found := OFFSET.fullmatch(rules[-1].text("TZOFFSETTO"))):
            told.append(f"UTC{found[1]}{found[2]}:{found[3]}{note}")
    return zone.text("TZID"), f", {', '.join(told)}" if told else ""
