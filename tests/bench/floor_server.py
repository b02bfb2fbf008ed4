"""What a turn costs at least, as a process: `python -m tests.bench.floor_server bare|stub --model URL --dir DIR`.

`bare`: one thread; an aiohttp handler makes a turn's model calls and its commits (synchronous=FULL), one after the other.
`stub`: the same, but a writer thread commits what waits in one group. Both answer like `POST /v1/messages?wait=1`.
Prints its address.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import aiohttp
from aiohttp import web

COMMITS = {"hello": 3, "looks": 13, "stream": 3}
"""How often our own daemon commits in such a turn (section `journal` counts it)."""
PAYLOAD = "x" * 800
PROMPT = "You are an assistant. " * 150
Commit = Callable[[], object]


def open_db(folder: Path) -> sqlite3.Connection:
    """A journal that is as durable as ours."""
    db = sqlite3.connect(folder / "floor.db", isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, payload TEXT)")
    return db


class Bare:
    """Commits in the loop's thread."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    async def commit(self) -> None:
        """One row, one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("INSERT INTO rows (payload) VALUES (?)", (PAYLOAD,))
        self._db.execute("COMMIT")


class Grouped:
    """Commits in a thread that takes all that waits."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._waiting: SimpleQueue[Future[None]] = SimpleQueue()
        Thread(target=self._work, daemon=True).start()

    async def commit(self) -> None:
        """One row, in a transaction with the others that wait."""
        done: Future[None] = Future()
        self._waiting.put(done)
        await asyncio.wrap_future(done)

    def _work(self) -> None:
        while True:
            group = [self._waiting.get()]
            try:
                while True:
                    group.append(self._waiting.get_nowait())
            except Empty:
                pass
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO rows (payload) VALUES (?)", [(PAYLOAD,)] * len(group))
            self._db.execute("COMMIT")
            for done in group:
                done.set_result(None)


class Floor:
    """The handler."""

    def __init__(self, model: str, commits: Bare | Grouped, http: aiohttp.ClientSession) -> None:
        self._url, self._commits, self._http = f"{model}/chat/completions", commits, http

    async def answer(self, request: web.Request) -> web.Response:
        """A turn: commits before, between and after the model calls."""
        asked = await request.json()
        text = str(asked["text"])
        word = next((word for word in COMMITS if word in text), "hello")
        messages: list[dict[str, object]] = [
            {"role": "system", "content": PROMPT},
            {"role": "user", "content": text},
        ]
        reply = (
            await self._stream(messages)
            if word == "stream"
            else await self._converse(messages, COMMITS[word] - 1)
        )
        await self._commits.commit()
        return web.json_response({"reply": reply, "stop_reason": "done"})

    async def _converse(self, messages: list[dict[str, object]], commits: int) -> object:
        while True:
            for _ in range(min(2, commits)):
                await self._commits.commit()
                commits -= 1
            async with self._http.post(
                self._url, json={"model": "fake", "messages": messages}
            ) as response:
                message = (await response.json())["choices"][0]["message"]
            if not message.get("tool_calls"):
                return message["content"]
            messages.append(message)
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": "nothing found"}
                for call in message["tool_calls"]
            ]

    async def _stream(self, messages: list[dict[str, object]]) -> str:
        for _ in range(2):
            await self._commits.commit()
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
    db = open_db(options.dir)
    commits = Bare(db) if options.kind == "bare" else Grouped(db)
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
