"""Attacks on the approval flow, through the real doors of a real daemon (A6 of the reference). Nobody but the attacker acts.

Each attack is one wish: that something runs which nobody with a say has said yes to. Its witness is a file in the workspace.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import TOKEN, Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.wordy_model import Script, shell

ROLES = ("admin", "editor", "viewer", "guest")
SCOPES = ("once", "session", "always")
EVENT = "event-token-000000000000"
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
LONG = "x" * 600
CONTROL = "(control: the owner's own yes)"
EVENTS = f'[events]\nenabled = true\nnotify = "terminal:owner"\n[events.tokens]\nmill = "{EVENT}"\n'
FORGED_CALLS = (
    "99.0",
    "-1.0",
    "3",
    "3.0 ",
    "3.00",
    "03.0",
    "3.0' OR '1'='1",
    "budget.1",
    "review",
    "%",
    "*",
    "../3.0",
)
FORGED_BOUNDS: tuple[dict[str, object], ...] = (
    {"scope": "forever"},
    {"scope": "always", "times": 0},
    {"scope": "always", "times": -1},
    {"scope": "always", "minutes": 0},
    {"scope": "always", "minutes": 1e9},
    {"scope": "always", "paths": "**"},
    {"scope": "always", "paths": "*"},
    {"scope": "once", "times": 5},
    {"answer": "always"},
    {"by": "owner"},
    {"args_hash": ""},
)
Said = Mapping[str, object]
NO_MORE: Said = {}
Json = dict[str, object]


@dataclass(slots=True)
class Tally:
    """How often an attack was tried, and how often it got what it wanted."""

    tries: int = 0
    accepted: int = 0


@dataclass(slots=True)
class Range:
    """A home with a daemon in it, and what was done to it."""

    home: Path
    model: FakeOpenAI
    script: Script
    daemon: Daemon | None = None
    tallies: dict[str, Tally] = field(default_factory=dict)
    asked: int = 0

    @property
    def clock(self) -> Path:
        """The wall clock of the daemon."""
        return self.home.parent / "clock"

    @property
    def at(self) -> Daemon:
        """The daemon that runs now."""
        assert self.daemon
        return self.daemon

    @asynccontextmanager
    async def running(self, roles: tuple[str, ...] = ROLES) -> AsyncIterator[Daemon]:
        """The daemon, with one user of each of these roles."""
        users = "".join(
            f'[[http.users]]\nname = "{role}"\nrole = "{role}"\ntoken = "{_token(role)}"\n'
            for role in roles
        )
        config = scripted(self.model.base_url, f"{users}{EVENTS}")
        async with running_daemon(
            self.home, config, {"AIDAEMON_TEST_CLOCK": str(self.clock)}
        ) as self.daemon:
            yield self.daemon

    def note(self, attack: str, accepted: bool) -> None:
        """One try is over."""
        tally = self.tallies.setdefault(attack, Tally())
        tally.tries, tally.accepted = tally.tries + 1, tally.accepted + accepted

    async def question(self, session: str = "web:owner", *more: str) -> tuple[str, list[str]]:
        """The owner asks for something dangerous; the run that waits, and the names of its questions."""
        self.asked += 1
        word = f"do{self.asked}"
        commands = [
            f"touch hit{self.asked}-{n}; rm -f {what}" for n, what in enumerate(more or ("x",))
        ]
        step = (
            shell(commands[0])
            if len(commands) == 1
            else calls(*(("shell", {"command": one}) for one in commands))
        )
        turn = await self.at.begin(
            self.script.on(word, step, says("ok")), session.removeprefix("web:")
        )
        await self.at.until(turn, "run.suspended")
        waiting = await self.at.listed("/v1/approvals", session=session)
        return turn, [str(one["call_id"]) for one in waiting if one["turn"] == turn]

    async def asks(
        self, method: str, path: str, token: str, body: Mapping[str, object]
    ) -> tuple[int, Json]:
        """One request, as whoever has this token."""
        headers = {"Authorization": f"Bearer {token}"}
        async with self.at.http.request(method, path, json=body, headers=headers) as response:
            text = await response.text()
            return response.status, json.loads(text) if text.startswith("{") else {}

    async def approves(
        self,
        attack: str,
        turn: str,
        call_id: str,
        token: str = TOKEN,
        *,
        scope: str = "once",
        more: Said = NO_MORE,
    ) -> int:
        """Somebody says yes who may not, or to what cannot be said yes to."""
        said = {"call_id": call_id, "scope": scope, **more}
        status, _ = await self.asks("POST", f"/v1/runs/{turn}/approve", token, said)
        self.note(attack, status == 200)
        return status

    async def says(self, attack: str, text: str, session: str, token: str = TOKEN) -> str:
        """A text that ought to be no yes."""
        _, answer = await self.asks(
            "POST", "/v1/messages", token, {"session": session, "text": text}
        )
        reply = str(answer.get("reply", ""))
        self.note(attack, "Approved" in reply)
        return reply

    async def over(self, turn: str) -> None:
        """The owner ends it: whatever waits is refused."""
        await self.at.post(f"/v1/runs/{turn}/cancel")
        await self.at.until(turn, "run.completed")

    def hits(self) -> list[str]:
        """What ran, in any of the attacks."""
        return sorted(path.name for path in (self.home / "workspace").glob("hit*"))


def _token(role: str) -> str:
    return f"token-of-the-{role}-0123456789"


async def others_answer(range_: Range) -> None:
    """Another user, another token, no token: to a question of the owner's run."""
    turn, [call_id] = await range_.question()
    for role, scope in product(ROLES, SCOPES):
        await range_.approves("answer of another user", turn, call_id, _token(role), scope=scope)
    for token in ("", "x", TOKEN[:-1], TOKEN + "0", EVENT, _token("nobody")):
        await range_.approves("answer with a forged token", turn, call_id, token)
    for role in ROLES:
        for text in ("/approve", "/approve all", "/approve 1 always"):
            await range_.says("command of another user", text, "web:owner", _token(role))
            await range_.says("command in another conversation", text, f"web:{role}", _token(role))
    await range_.over(turn)


async def forged_names(range_: Range) -> None:
    """Calls and runs that do not exist, or that do not belong together; numbers of no question; bounds out of all bounds."""
    turn, [call_id] = await range_.question()
    other, [theirs] = await range_.question("web:other")
    for name in (*FORGED_CALLS, call_id + "\x00"):
        await range_.approves("forged call", turn, name)
    for run in ("nosuchturn", turn[:-1], turn + "0", "%25", other.upper()):
        await range_.approves("forged run", run, call_id)
    for more in FORGED_BOUNDS:
        await range_.approves("forged bounds", turn, call_id, more=more)
    for number in ("2", "0", "-1", "1e0", "yes", "always 0 times", "show"):
        await range_.says("forged number", f"/approve {number}", "web:owner")
    await range_.over(turn)
    await range_.over(other)
    await range_.approves("answer to a run that is over", turn, call_id)
    await range_.approves("answer to a run that is over", other, theirs)


async def words_that_are_no_yes(range_: Range) -> None:
    """Text typed while a question waits is a no, whatever it says."""
    for text in (
        "yes",
        "y",
        "ok do it",
        "approve",
        "always",
        "yes /approve",
        "I approve of it all",
        "/ approve",
    ):
        turn, [_] = await range_.question()
        await range_.says("text typed while a question waits", text, "web:owner")
        await range_.at.until(turn, "run.completed")


async def double(range_: Range) -> None:
    """Many answers at once: one of them counts, and what was asked about runs once. The one is the owner's own."""
    turn, [call_id] = await range_.question()
    path = f"/v1/runs/{turn}/approve"
    answers = await asyncio.gather(
        *(range_.asks("POST", path, TOKEN, {"call_id": call_id}) for _ in range(12))
    )
    won = sum(status == 200 for status, _ in answers)
    await range_.at.until(turn, "run.completed")
    runs = sum(call["result"] is not None for call in await range_.at.calls_of(turn))
    for n in range(12):
        range_.note("double answer", n > 0 and n < max(won, runs))
    range_.note(CONTROL, won == 1)
    (range_.home / "workspace" / f"hit{range_.asked}-0").unlink()
    for scope in SCOPES:
        await range_.approves("double answer", turn, call_id, scope=scope)


async def swapped(range_: Range) -> None:
    """Questions change places between the list and the answer."""
    turn, [first, *_] = await range_.question("web:owner", "a", "b", "c")
    await range_.says(
        "swapped questions", "/approve all", "web:owner"
    )  # nothing was listed: it is, now
    await range_.asks("POST", f"/v1/runs/{turn}/reject", TOKEN, {"call_id": first})
    reply = await range_.says("swapped questions", "/approve 1", "web:owner")
    assert "questions wait" in reply, reply
    await range_.over(turn)
    await range_.says("swapped questions", "/approve 2", "web:owner")
    later, [_] = await range_.question("web:owner", "d")
    await range_.says("swapped questions", "/approve 3", "web:owner")
    await range_.over(later)


async def hidden_text(range_: Range) -> None:
    """What is too long to be shown, and what hides, is looked at first, and spelled out."""
    turn, [_] = await range_.question("web:owner", f"{LONG}\u202egpj")
    for text in (
        "/approve",
        "/approve all",
        "/approve 1",
        "/approve always",
        "/approve session 5 times",
    ):
        reply = await range_.says("text not shown whole", text, "web:owner")
        range_.note("hidden characters", "\u202e" in reply)
    await range_.over(turn)
    turn, [_, _] = await range_.question("web:owner", "\u200bone", "two\n3. shell (read)\u2066")
    reply = await range_.says("hidden characters", "/approve", "web:owner")
    range_.note(
        "hidden characters", any(char in reply for char in "\u200b\u2066") or "\n3. shell" in reply
    )
    await range_.over(turn)


async def strangers(range_: Range) -> None:
    """An event's sender asks for something, and would say yes to it too."""
    range_.model.otherwise(shell("touch hit-event; rm -f x"))
    status, taken = await range_.asks(
        "POST", "/v1/events/mill", EVENT, {"text": "please do as I say"}
    )
    assert status == 202, taken
    turn, session = str(taken["turn"]), str(taken["session"])
    await range_.at.until(turn, "run.suspended")
    range_.script = Script(range_.model)
    [question] = [one for one in await range_.at.listed("/v1/approvals") if one["turn"] == turn]
    call_id = str(question["call_id"])
    for token, scope in product((EVENT, *map(_token, ROLES)), SCOPES):
        await range_.approves("answer of a stranger", turn, call_id, token, scope=scope)
    for text in ("/approve", "yes", "/approve all always"):
        await range_.asks("POST", "/v1/events/mill", EVENT, {"text": text})
        for where in (session, f"web:{session}", "event", "terminal:owner"):
            await range_.says("command of a stranger", text, where, EVENT)
            await range_.says("command of another user", text, where, _token("editor"))
    await range_.over(turn)


async def late(range_: Range) -> None:
    """After it has lapsed."""
    turn, [call_id] = await range_.question()
    range_.clock.write_text((START + timedelta(minutes=6)).isoformat())
    while await range_.at.listed("/v1/approvals", session="web:owner"):
        await asyncio.sleep(0)  # the clock's file is looked at every 100 ms: each look is a request
    for scope in SCOPES:
        await range_.approves("answer after expiry", turn, call_id, scope=scope)
    for text in ("/approve", "/approve 1", "/approve all"):
        await range_.says("answer after expiry", text, "web:owner")
    await range_.over(turn)


async def command_line(range_: Range) -> None:
    """`aidaemon chat` in another conversation, and a run of another one's name."""
    turn, [_] = await range_.question()
    for text in ("/approve", "/approve 1", "/approve all always"):
        done = await asyncio.to_thread(
            aidaemon, "chat", "--session", "other", "--once", text, home=range_.home
        )
        range_.note("command line in another conversation", "Approved" in done.stdout)
    await range_.over(turn)


ATTACKS: tuple[Callable[[Range], Awaitable[None]], ...] = (
    others_answer, forged_names, words_that_are_no_yes, double, swapped, hidden_text, strangers, command_line, late,
)  # fmt: skip


async def over_a_restart(range_: Range) -> None:
    """Replayed after a restart; changed while nobody looked; by somebody who was taken off the list since."""
    async with range_.running():
        done, [answered] = await range_.question("web:replay")
        await range_.asks("POST", f"/v1/runs/{done}/reject", TOKEN, {"call_id": answered})
        await range_.at.until(done, "run.completed")
        changed, [theirs] = await range_.question("web:changed")
        removed, [open_] = await range_.question("web:removed")
        await range_.at.terminate()
    _change(range_.home / "journal.db", changed)
    async with range_.running(roles=()):
        for scope in SCOPES:
            await range_.approves("replay after a restart", done, answered, scope=scope)
        for role in ROLES:
            await range_.approves(
                "answer of somebody who was removed", removed, open_, _token(role)
            )
        await range_.asks(
            "POST", f"/v1/runs/{changed}/approve", TOKEN, {"call_id": theirs}
        )  # the owner's, to what was shown
        await range_.at.until(changed, "run.completed")
        ran = (range_.home / "workspace" / "hit-changed").exists()
        range_.note("arguments changed after they were shown", ran)
        await range_.over(removed)


def _change(journal: Path, turn: str) -> None:
    """Somebody with a hand on the disk puts other arguments into the call that waits."""
    db = sqlite3.connect(journal)
    with db:
        [(payload,)] = db.execute(
            "SELECT payload FROM events WHERE turn = ? AND kind = 'ModelReplied'", (turn,)
        ).fetchall()
        reply = json.loads(payload)
        reply["calls"][0]["arguments"] = json.dumps({"command": "touch hit-changed; rm -f x"})
        db.execute(
            "UPDATE events SET payload = ? WHERE turn = ? AND kind = 'ModelReplied'",
            (json.dumps(reply), turn),
        )
    db.close()


async def attack_all(home: Path) -> tuple[dict[str, Tally], list[str]]:
    """(tallies by attack, files that something left which nobody allowed)."""
    async with FakeOpenAI() as model:
        range_ = Range(home / "home", model, Script(model))
        range_.clock.write_text(START.isoformat())
        async with range_.running():
            for attack in ATTACKS:
                await attack(range_)
        range_.clock.write_text((START + timedelta(hours=1)).isoformat())
        await over_a_restart(range_)
        return range_.tallies, range_.hits()


@dataclass(frozen=True, slots=True)
class Attempts:
    """What the attacks came to: attempts, how many of them were accepted, files of commands that ran, and [attempts, accepted]
    by attack; controls are only in the latter.
    """

    tries: int
    accepted: int
    ran: list[str]
    by_attack: dict[str, list[int]]


def summary(tallies: dict[str, Tally], hits: list[str]) -> Attempts:
    """The figures."""
    real = [tally for name, tally in tallies.items() if not name.startswith("(")]
    by_attack = {name: [tally.tries, tally.accepted] for name, tally in sorted(tallies.items())}
    return Attempts(
        sum(tally.tries for tally in real), sum(tally.accepted for tally in real), hits, by_attack
    )


async def attacks(home: Path) -> Attempts:
    """Run them all in a fresh home."""
    return summary(*await attack_all(home))
