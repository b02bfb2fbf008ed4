"""What goes over the wire: JSON in, checked against a model; JSON out; and one shape for every error."""

import asyncio
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from daemon.core.errors import AidaemonError

BODY_LIMIT = 1024 * 1024
BODY_SECONDS = 30.0
FLAG_VALUES = {"0": False, "false": False, "1": True, "true": True}

ModelT = TypeVar("ModelT", bound=BaseModel)


class HttpError(AidaemonError):
    """The request cannot be served; status and kind say in which way."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = kind


def invalid(message: str) -> HttpError:
    """The client asked for something that cannot be meant."""
    return HttpError(400, "invalid", message)


def not_found(what: str) -> HttpError:
    """There is no such thing."""
    return HttpError(404, "not_found", f"there is no {what}")


def too_large(limit: int) -> HttpError:
    """More than is taken at once."""
    words = f"this is larger than the {limit} bytes that are taken at once; nothing of it was kept, send less at a time"
    return HttpError(413, "too_large", words)


def json_response(value: object, status: int = 200) -> web.Response:
    """A view, a list of views or a mapping, as JSON."""
    return web.Response(body=to_json(value), status=status, content_type="application/json")


def error_response(problem: HttpError) -> web.Response:
    """An error, as CONTRACT shapes it."""
    return json_response(
        {"error": {"type": problem.error_type, "message": str(problem)}}, problem.status
    )


async def read_body(request: web.Request, model: type[ModelT]) -> ModelT:
    """The request's body as this model. Raises Problem naming the field that is wrong."""
    raw = await read_raw_body(request)
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise invalid(_describe_faults(error)) from error


async def read_raw_body(request: web.Request, limit: int = BODY_LIMIT) -> bytes:
    """The request's body as it came, of at most `limit` bytes. Raises Problem."""
    if (request.content_length or 0) > limit:
        raise too_large(limit)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            raw = await request.read()
    except TimeoutError as error:
        raise HttpError(
            408, "timeout", f"the body did not arrive within {BODY_SECONDS:.0f} s"
        ) from error
    except web.RequestPayloadError as error:
        raise invalid("the body is not what its Content-Encoding says") from error
    except ConnectionError as error:
        raise HttpError(
            499, "gone", "the client went away before the body was whole; nothing was taken"
        ) from error
    if len(raw) > limit:
        raise too_large(limit)
    return raw


def query_flag(request: web.Request, name: str, *, default: bool) -> bool:
    """A yes or no of the query."""
    raw = request.query.get(name)
    if raw is None:
        return default
    if raw not in FLAG_VALUES:
        raise invalid(f"{name}: found {raw!r}, expected 1 or 0")
    return FLAG_VALUES[raw]


def query_number(
    request: web.Request, name: str, default: int, *, least: int = 0, most: int = 2**53
) -> int:
    """A whole number of the query."""
    raw = request.query.get(name)
    if raw is None:
        return default
    if not (raw.isascii() and raw.isdigit() and len(raw) < 18 and least <= int(raw) <= most):
        raise invalid(f"{name}: found {raw!r}, expected a whole number from {least} to {most}")
    return int(raw)


def _describe_faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'body'}: {_fault_text(fault['msg'])}"
        for fault in faults[:3]
    )


def _fault_text(message: str) -> str:
    return (
        "is not known here"
        if message.startswith("Extra inputs")
        else message.removeprefix("Value error, ")
    )
