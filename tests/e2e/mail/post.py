"""What comes by mail in the chaos: mails of all kinds, and what is to become of each."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.fakes.mail.dovecot import SERVER, USER
from tests.fakes.mail.odd import BROKEN, COSTLY, WORD
from tests.fakes.mail.server import write_mail

NO_WORD = (
    "mails in a mail",
    "HTML, deep",
    "comments",
    "parts in parts, 3,000",
    "numbered parameters",
)
ODD = {
    name: raw for name, raw in {**BROKEN, **COSTLY}.items() if WORD in raw and name not in NO_WORD
}
MACHINES = {
    "an answering machine": {"Auto-Submitted": "auto-replied"},
    "a program": {"Auto-Submitted": "auto-generated"},
    "a bulk": {"Precedence": "bulk"},
    "a list": {"List-Id": "<talk.example.org>", "Precedence": "list"},
    "a newsletter": {"List-Unsubscribe": "<https://example.org/out>"},
    "a holiday": {"X-Autoreply": "yes"},
}
MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail. `mark` stands in its text; `turn`: whether it begins one; `answered`: whether its sender gets one answer."""

    mark: str
    kind: str
    raw: bytes
    turn: bool = True
    answered: bool = False
    bounce: bool = False


def letters(count: int, chance: random.Random, huge: int) -> list[Letter]:
    """So many different mails, of which `huge` have more than 20 MB."""
    made = [_letter(n, chance) for n in range(count - huge)]
    made += [_huge(count - huge + n, chance) for n in range(huge)]
    chance.shuffle(made)
    return made


def deliveries(mails: list[Letter], chance: random.Random) -> Iterator[tuple[Letter, bytes]]:
    """As they come: some twice, the same bytes or with another trace of the way, as a server that tries again sends them."""
    for mail in mails:
        yield mail, mail.raw
        if len(mail.raw) < MB and b"\nMessage-ID: <m" in mail.raw and chance.random() < 0.3:
            trace = f"Received: from b by {SERVER}; try {chance.randrange(9)}\r\n".encode()
            yield mail, trace * chance.randrange(2) + mail.raw


def _letter(n: int, chance: random.Random) -> Letter:
    mark = f"[m{n}]"
    draw = chance.random()
    if draw < 0.45:
        return Letter(mark, "known", _mail(n, f"please answer {mark}"), answered=True)
    if draw < 0.60:
        return Letter(mark, "stranger", _mail(n, mark, proof="dmarc=fail header.from=example.org"))
    if draw < 0.80:
        name = chance.choice(sorted(ODD))
        return Letter(mark, name, ODD[name].replace(WORD, mark.encode()))
    if draw < 0.85:
        own = _mail(n, mark, sender=USER, proof=None)
        return Letter(mark, "our own address", own, turn=False)
    if draw < 0.90:
        return Letter(mark, "no return path", _mail(n, mark), turn=False, bounce=True)
    name = chance.choice(sorted(MACHINES))
    return Letter(mark, name, _mail(n, mark, headers=MACHINES[name]), turn=False)


def _huge(n: int, chance: random.Random) -> Letter:
    data = chance.randbytes(chance.randrange(15, 30) * MB)  # in base64 a third more
    raw = _mail(n, f"please answer [m{n}]", files={f"{n}.pdf": data})
    return Letter(f"[m{n}]", "huge", raw, answered=True)


def _mail(n: int, text: str, **more: object) -> bytes:
    return write_mail(text, **{"sender": f"p{n}@example.org", "number": str(n), **more})  # type: ignore[arg-type]
