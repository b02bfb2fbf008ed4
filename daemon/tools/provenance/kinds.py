"""Kinds of things: what the name of an argument, or of its tool, says that a value is."""

import re
from dataclasses import dataclass


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


SMALL = ("the", "a", "an", "with", "of", "is", "as", "to", "named", "called", "my", "our", "this")
FILLERS = frozenset(("id", "ids", "number", "no", "nr", *SMALL))
LEADS = _set("named called invite tell message email mail ask cc ping notify")
TOWARDS = _set("to with")
GIVING = _set(
    "send mail email forward give share write post reply answer transfer pay message say deliver invite assign book make create"
    " schedule add set plan arrange hand show report pass speak talk"
)
PEOPLE = _set(
    "to cc bcc recipient user username participant attendee invitee guest member assignee contact person people name who whom"
    " group team channel room address"
)
AMOUNTS = _set("amount price sum total cost fee budget value money payment")
GENERIC = _set("id number no nr key name new value list")
VERBS = _set(
    "add append assign book cancel change close copy create delete do edit find forward get insert invite list make mark move"
    " open pay post put read remove rename reply reschedule run search send set share show start stop transfer update upload use"
    " write"
)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Kinds:
    """What an argument is about. `own`: what its name says; `all`: where that says nothing, what its tool is about;
    `measures`: words that may stand behind a number of it ("30 minutes"): never those of an id.
    """

    own: frozenset[str]
    all: frozenset[str]
    measures: frozenset[str]


def kinds_of(name: str, tool: str) -> Kinds:
    """The kinds that names are made of: "file_id" is about a file, "newStartTime" about a start and a time."""
    parts = [part.lower() for part in CAMEL.split(name) if part]
    own = frozenset(map(single, parts))
    telling = own - GENERIC
    about = frozenset(single(part.lower()) for part in CAMEL.split(tool.rpartition("__")[2]) if part) - VERBS - GENERIC
    is_id = not FILLERS.isdisjoint(parts)
    return Kinds(own, telling or about, frozenset() if is_id else frozenset(parts))


def single(word: str) -> str:
    """One of them."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
