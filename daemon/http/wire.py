"""What goes over the wire: JSON in, checked against a model; JSON out; and one shape for every error."""

import asyncio
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from daemon.core.errors import AidaemonError

BODY_LIMIT = 1024 * 1024
BODY_SECONDS = 30.0
TRUTH = {"0": False, "false": False, "1": True, "true": True}

M = TypeVar("M", bound=BaseModel)


class Problem(AidaemonError):
    """The request cannot be served; status and kind say in which way."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def invalid(message: str) -> Problem:
    """The client asked for something that cannot be meant."""
    return Problem(400, "invalid", message)


def not_found(what: str) -> Problem:
    """There is no such thing."""
    return Problem(404, "not_found", f"there is no {what}")


def too_large(limit: int) -> Problem:
    """More than is taken at once."""
    words = f"this is larger than the {limit} bytes that are taken at once; nothing of it was kept, send less at a time"
    return Problem(413, "too_large", words)


def answer(value: object, status: int = 200) -> web.Response:
    """A view, a list of views or a mapping, as JSON."""
    return web.Response(body=to_json(value), status=status, content_type="application/json")


def refusal(problem: Problem) -> web.Response:
    """An error, as CONTRACT shapes it."""
    return answer({"error": {"type": problem.kind, "message": str(problem)}}, problem.status)


async def body(request: web.Request, model: type[M]) -> M:
    """The request's body as this model. Raises Problem naming the field that is wrong."""
    raw = await raw_body(request)
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise invalid(_faults(error)) from error


async def raw_body(request: web.Request, limit: int = BODY_LIMIT) -> bytes:
    """The request's body as it came, of at most `limit` bytes. Raises Problem."""
    if (request.content_length or 0) > limit:
        raise too_large(limit)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            raw = await request.read()
    except TimeoutError as error:
        raise Problem(408, "timeout", f"the body did not arrive within {BODY_SECONDS:.0f} s") from error
    except web.RequestPayloadError as error:
        raise invalid("the body is not what its Content-Encoding says") from error
    except ConnectionError as error:
        raise Problem(499, "gone", "the client went away before the body was whole; nothing was taken") from error
    if len(raw) > limit:
        raise too_large(limit)
    return raw


def flag(request: web.Request, name: str, *, default: bool) -> bool:
    """A yes or no of the query."""
    raw = request.query.get(name)
    if raw is None:
        return default
    if raw not in TRUTH:
        raise invalid(f"{name}: found {raw!r}, expected 1 or 0")
    return TRUTH[raw]


def number(request: web.Request, name: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
    """A whole number of the query."""
    raw = request.query.get(name)
    if raw is None:
        return default
    if not (raw.isascii() and raw.isdigit() and len(raw) < 18 and least <= int(raw) <= most):
        raise invalid(f"{name}: found {raw!r}, expected a whole number from {least} to {most}")
    return int(raw)


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'body'}: {_words(fault['msg'])}" for fault in faults[:3])


def _words(message: str) -> str:
    return "is not known here" if message.startswith("Extra inputs") else message.removeprefix("Value error, ")
