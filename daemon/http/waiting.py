"""Waiting for the end of a run on behalf of a client who may have gone."""

import asyncio

from aiohttp import web

from daemon.door.base import Door, RunView
from daemon.http.wire import Problem

LOOK_S = 5.0


async def settled(door: Door, request: web.Request, turn: str) -> RunView:
    """The run when it has ended. A client who goes away ends the waiting, never the run.

    Handlers are not cancelled when a connection drops (a write to the journal must not be cut in half), so this looks.
    """
    waiting = asyncio.ensure_future(door.settled(turn))
    try:
        while not waiting.done() and request.transport is not None:
            await asyncio.wait((waiting,), timeout=LOOK_S)
        if waiting.done():
            return waiting.result()
    finally:
        waiting.cancel()
    raise Problem(499, "gone", "the client went away; the run goes on")
