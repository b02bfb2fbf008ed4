"""What a turn costs at least, as a process: `python -m tests.bench.floor_server bare|stub --model URL --dir DIR`.

`bare`: one thread; an aiohttp handler makes a turn's model calls and its commits (synchronous=FULL), one after the other.
`stub`: the same, but it commits the rows of a turn of ours, into our schema, and a writer thread commits what waits in one
group. Both answer like `POST /v1/messages?wait=1`.
Prints its address.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import aiohttp
from aiohttp import web

from daemon.store.migrate import open_writer

COMMITS = {"hello": 3, "looks": 13, "stream": 3}
"""How often our own daemon commits in such a turn (section `journal` counts it)."""
PAYLOAD = "x" * 800
PROMPT = "You are an assistant. " * 150
ASKED = json.dumps(
    {
        "iteration": 1,
        "provider": "openai:floor",
        "prompt_hash": "0" * 24,
        "tools": ["a_tool"] * 7,
        "x": "x" * 200,
    }
)
EVENT = "INSERT INTO events VALUES (:turn, {seq}, 1, '{kind}', 1, '{payload}')"
ROWS = (
    (
        "INSERT INTO inbox (id, channel, account, external_id, session, sender, body, label, turn, received_at, steers, state)"
        " VALUES ('in' || :turn, 'web', '', :turn, 'web:floor', 'owner', 'hello', 'trusted', '', 1, '', 'new')",
    ),
    (
        "INSERT INTO turns (id, session, parent, input_id, state, label, started_at, detail, reply, iterations, input_tokens,"
        " output_tokens, cached_tokens, reserved_tokens, reserved_usd) VALUES (:turn, 'web:floor', '', 'in' || :turn, 'running',"
        " 'trusted', 1, '', '', 0, 0, 0, 0, 730, 0.2)",
        "UPDATE inbox SET state = 'done', turn = :turn WHERE id = 'in' || :turn",
        EVENT.format(seq=1, kind="UserSaid", payload=json.dumps({"text": "hello", "x": "x" * 220})),
        EVENT.format(seq=2, kind="ModelAsked", payload=ASKED),
    ),
    (
        EVENT.format(
            seq=":number + 1",
            kind="ModelReplied",
            payload=json.dumps({"text": "ok", "x": "x" * 190}),
        ),
        EVENT.format(seq="-:number", kind="TurnEnded", payload='{"reason":"done","reply":"ok"}'),
        "UPDATE turns SET state = 'ended', ended_at = 2, stop_reason = 'done', reply = 'ok', input_tokens = 10 WHERE id = :turn",
        "INSERT INTO outbox (turn, part, session, channel, chat, kind, body, created_at, state, platform_message_id, attempts)"
        " VALUES (:turn, :number, 'web:floor', 'web', 'floor', 'reply', 'ok', 2, 'sent', '', 0)",
        "INSERT INTO daily_usage VALUES (1, 'web:floor', 'openai:floor', 'fake', 1, 10, 5, 0, 0, 1) ON CONFLICT DO UPDATE SET"
        " calls = calls + 1, input_tokens = input_tokens + 10, output_tokens = output_tokens + 5",
    ),
)
"""The rows of the first, the second, and each further commit of a turn."""


Commit = Callable[[int], Awaitable[None]]


def open_db(folder: Path) -> sqlite3.Connection:
    """A journal that is as durable as ours."""
    db = sqlite3.connect(folder / "floor.db", isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, payload TEXT)")
    return db


class Bare:
    """Commits one row in the loop's thread."""

    def __init__(self, folder: Path) -> None:
        self._db = open_db(folder)

    async def commit(self, turn: str, number: int) -> None:
        """One row, one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("INSERT INTO rows (payload) VALUES (?)", (PAYLOAD,))
        self._db.execute("COMMIT")


class Grouped:
    """Commits, in a thread that takes all that waits, the rows that our daemon writes in its three commits of a trivial turn:
    the message, the begin of the turn, its end. Further commits are those of tool calls."""

    def __init__(self, folder: Path) -> None:
        self._db = open_writer(folder / "journal.db")
        self._waiting: SimpleQueue[tuple[str, int, Future[None]]] = SimpleQueue()
        Thread(target=self._work, daemon=True).start()

    async def commit(self, turn: str, number: int) -> None:
        """The rows of this commit, in a transaction with the others that wait."""
        done: Future[None] = Future()
        self._waiting.put((turn, number, done))
        await asyncio.wrap_future(done)

    def _work(self) -> None:
        while True:
            group = [self._waiting.get()]
            try:
                while True:
                    group.append(self._waiting.get_nowait())
            except Empty:
                pass
            try:
                self._db.execute("BEGIN IMMEDIATE")
                for turn, number, _ in group:
                    for statement in ROWS[min(number, 2)]:
                        self._db.execute(statement, {"turn": turn, "number": number})
                self._db.execute("COMMIT")
            except sqlite3.Error as error:  # who asked is told; nobody waits for a dead thread
                self._db.rollback()
                for _, _, done in group:
                    done.set_exception(error)
                continue
            for _, _, done in group:
                done.set_result(None)


class Floor:
    """The handler."""

    def __init__(self, model: str, commits: Bare | Grouped, http: aiohttp.ClientSession) -> None:
        self._url, self._commits, self._http = f"{model}/chat/completions", commits, http
        self._turns = count()

    async def answer(self, request: web.Request) -> web.Response:
        """A turn: commits before, between and after the model calls."""
        asked = await request.json()
        text = str(asked["text"])
        word = next((word for word in COMMITS if word in text), "hello")
        messages: list[dict[str, object]] = [
            {"role": "system", "content": PROMPT},
            {"role": "user", "content": text},
        ]
        commit = partial(self._commits.commit, f"turn{next(self._turns)}")
        for number in range(2):
            await commit(number)
        reply = (
            await self._stream(messages)
            if word == "stream"
            else await self._converse(messages, commit, COMMITS[word] - 1)
        )
        await commit(COMMITS[word] - 1)
        return web.json_response({"reply": reply, "stop_reason": "done"})

    async def _converse(
        self, messages: list[dict[str, object]], commit: Commit, commits: int
    ) -> object:
        number = 2
        while True:
            async with self._http.post(
                self._url, json={"model": "fake", "messages": messages}
            ) as response:
                message = (await response.json())["choices"][0]["message"]
            if not message.get("tool_calls"):
                return message["content"]
            if number < commits:
                await commit(number)
                number += 1
            messages.append(message)
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": "nothing found"}
                for call in message["tool_calls"]
            ]

    async def _stream(self, messages: list[dict[str, object]]) -> str:
        text: list[str] = []
        async with self._http.post(
            self._url, json={"model": "fake", "messages": messages, "stream": True}
        ) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    choices = json.loads(line[6:])["choices"]
                    text += [one["delta"].get("content") or "" for one in choices]
        return "".join(text)


async def _main(options: argparse.Namespace) -> None:
    commits = Bare(options.dir) if options.kind == "bare" else Grouped(options.dir)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        app = web.Application()
        app.router.add_post("/v1/messages", Floor(options.model, commits, http).answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.floor_server")
    parser.add_argument("kind", choices=("bare", "stub"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--dir", type=Path, required=True)
    asyncio.run(_main(parser.parse_args()))
