"""Whether a sentence forbids something or asks for a question before it, and what that something is (F5)."""

from collections.abc import Sequence

from daemon.core.label import Decision
from daemon.core.words import listed

YES = listed(
    "ask asks asked asking check checks checked checking confirm confirms confirmed confirming confirmation consult consulting "
    "approval approve approves approved approving permission permit consent ok okay go-ahead say says said saying say-so tell "
    "tells told telling agree agrees agreed agreeing agreement allow allowed authorization authorisation authorized authorised "
    "blessing verify verifying"
)
AROUND = listed(
    "me us i my our you your we the a an owner owner's user user's with in from of for to by first firstly beforehand before "
    "always ever explicitly explicit prior so yes it that this is it's i've i have has had get gets got getting obtain obtaining "
    "obtained give gives gave given giving request requesting seek seeking wait waiting need needing needs require "
    "requires please must should shall will would may can double and then be been want each every single time again either having"
)
LEAD = listed(
    "please you must should may can shall will would are is do the assistant agent aidaemon i i'd want like to make sure that "
    "always allowed rule under from now on ok okay hey be"
)
AFTER = listed("ever even be allowed to under any circumstances circumstance try attempt you want more let of")
NOT = listed("never not no avoid stop refuse")
CONTRACTED = {
    "don't", "dont", "can't", "cannot", "cant", "mustn't", "mustnt", "shouldn't", "shouldnt", "won't", "wont", "mayn't",
    "aren't", "isn't", "doesn't",
}  # fmt: skip
CUTS = listed("without w/o unless until before except")
ONLY_CUTS = listed("after when if with once")
NEEDS = listed("need needs require requires")
TAILS = (("forbidden",), ("prohibited",), ("not", "allowed"), ("not", "permitted"), ("never", "allowed"))
Asked = tuple[Decision, Sequence[str]]


def asked_for(words: Sequence[str]) -> Asked | None:
    """What is to happen, and the words that say before what; None when the sentence says neither."""
    said = [("not" if word.lower() in CONTRACTED else word) for word in words]
    return _ask_before(said) or _only(said) or _needs(said) or _forbidden(said) or _never(said)


def _means_asking(words: Sequence[str]) -> bool:
    small = [word.lower() for word in words if word != ","]
    return any(word in YES for word in small) and all(word in YES or word in AROUND for word in small)


def _ask_before(words: Sequence[str]) -> Asked | None:
    """`always ask me before you send mail`; also `ask me for permission to`, `ask me if you want to`."""
    small = [word.lower() for word in words]
    if not small or any(word in NOT for word in small):
        return None
    for at, word in enumerate(small):
        permission = word == "to" and small[at - 1] in ("permission", "approval", "consent")
        wish = word in ("if", "when", "whenever") and small[at + 1 : at + 4] in (["you", "want", "to"], ["you", "need", "to"])
        if (word in ("before", "prior") or permission or wish) and _means_asking(small[:at]):
            rest = words[at + (4 if wish else 1) :]
            return Decision.ASK, _behind(rest, listed("to you ever any every each"))
    return None


def _only(words: Sequence[str]) -> Asked | None:
    """`only send mail after asking me`."""
    small = [word.lower() for word in words]
    lead = next((at for at, word in enumerate(small) if word not in LEAD), len(small))
    if small[lead : lead + 1] != ["only"]:
        return None
    cut = next((at for at in range(lead, len(words)) if small[at] in ONLY_CUTS and _means_asking(words[at + 1 :])), None)
    return (Decision.ASK, words[lead + 1 : cut]) if cut else None


def _needs(words: Sequence[str]) -> Asked | None:
    """`deleting mail needs my approval`."""
    cut = next((at for at, word in enumerate(words) if word.lower() in NEEDS and _means_asking(words[at + 1 :])), 0)
    return (Decision.ASK, _behind(words[:cut], listed("every any each all"))) if cut else None


def _forbidden(words: Sequence[str]) -> Asked | None:
    """`deleting mail is forbidden`."""
    small = [word.lower() for word in words]
    for tail in TAILS:
        if tuple(small[-len(tail) :]) == tail and len(small) > len(tail) + 1 and small[-len(tail) - 1] in ("is", "are"):
            return Decision.DENY, words[: -len(tail) - 1]
    return None


def _never(words: Sequence[str]) -> Asked | None:
    """`never delete mail`, and with `without asking` behind it, a question."""
    lead = next((at for at, word in enumerate(words) if word.lower() in NOT), None)
    if lead is None or any(word.lower() not in LEAD and word != "," for word in words[:lead]):
        return None
    rest = _behind(words[lead + 1 :], AFTER)
    cut = next((at for at, word in enumerate(rest) if word.lower() in CUTS and _means_asking(rest[at + 1 :])), None)
    return (Decision.DENY, rest) if cut is None else (Decision.ASK, rest[:cut])


def _behind(words: Sequence[str], filler: frozenset[str]) -> Sequence[str]:
    first = next((at for at, word in enumerate(words) if word.lower() not in filler and word != ","), len(words))
    return words[first:]
