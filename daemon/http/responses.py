"""Requests and responses as JSON: bodies checked against a model, query values, and one form for
every error.
"""

import asyncio
import codecs
import json
import re
from hashlib import sha256
from typing import Annotated, Any, TypeVar

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError
from pydantic_core import to_json

from daemon.client.protocol import DaemonClient
from daemon.core.errors import AidaemonError
from daemon.core.messages import drop_lone_surrogates
from daemon.core.trust import Person

PERSON = web.RequestKey("person", Person)
BODY_HASH = web.RequestKey("body_hash", str)
"""Of the body that a page signed."""
UNCACHED = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
BODY_LIMIT = 1024 * 1024
BODY_SECONDS = 30.0
BYTE_ORDER_MARK = "\ufeff"
# Python's names of those that are read in one go; "punycode" takes minutes for a megabyte.
CHARSETS = ("utf-", "ascii", "iso8859", "cp", "koi8", "gb", "big5", "shift_jis", "euc")
HALF = re.compile(r"\\u[dD][89a-fA-F]")
EXPECTED_JSON = "; expected a JSON object in UTF-8"
EXTRA_FIELD, UNKNOWN_FIELD = "Extra inputs are not permitted", "is not known here"


class Body(BaseModel):
    """The JSON body of a request."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not empty")
    return text


Text = Annotated[str, AfterValidator(_check_not_blank)]
Reason = Annotated[str, StringConstraints(max_length=2000)]
BodyT = TypeVar("BodyT", bound=Body)


class HttpError(AidaemonError):
    """The request cannot be served; `status` and `error_type` say why."""

    def __init__(
        self, status: int, error_type: str, message: str, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status
        self.error_type = error_type


def invalid(message: str) -> HttpError:
    """The request is wrong, whoever sends it."""
    return HttpError(400, "invalid", message)


def not_found(what: str) -> HttpError:
    """The thing that the address names does not exist."""
    return HttpError(404, "not_found", f"there is no {what}")


def too_large(limit: int) -> HttpError:
    """The body is larger than `limit` bytes."""
    return HttpError(
        413,
        "too_large",
        f"the body is larger than {limit} bytes; nothing of it was kept, send less",
    )


def json_response(value: object, status: int = 200) -> web.Response:
    """A view, a list of views or a mapping, as JSON."""
    return web.Response(
        body=to_json(value), status=status, content_type="application/json", headers=UNCACHED
    )


def error_response(error: HttpError) -> web.Response:
    """An error in the form that http.md gives."""
    details = {"type": error.error_type, "message": str(error)}
    response = json_response({"error": details}, error.status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


async def read_body(request: web.Request, model: type[BodyT], limit: int = BODY_LIMIT) -> BodyT:
    """The body as this model. Raises HttpError that names the wrong field."""
    raw = await read_raw_body(request, limit)
    try:
        text = decode_text(request.charset or "utf-8", raw)
        return model.model_validate_json(mend_halves(text))
    except ValidationError as error:
        faults = describe_faults(error)
        if UNKNOWN_FIELD in faults:
            faults += f"; the fields are {', '.join(model.model_fields)}"
        raise invalid(faults) from error
    except ValueError as error:
        raise invalid(f"body: {error}{EXPECTED_JSON}") from error


def mend_halves(text: str) -> str:
    """JSON without half characters, as a client makes them that cuts a text within an emoji."""
    if not HALF.search(text):
        return text
    try:
        return drop_lone_surrogates(json.dumps(json.loads(text), ensure_ascii=False))
    except (ValueError, RecursionError):
        return text  # what is wrong is told of the text as it came


def decode_text(charset: str, raw: bytes) -> str:
    """A body as text, in this charset, or in the one that its first bytes name. Raises
    ValueError.
    """
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        charset = "utf-16"
    try:
        if not codecs.lookup(charset).name.startswith(CHARSETS):
            raise LookupError
        return raw.decode(charset).removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise ValueError(f"its bytes at {error.start} are not {charset}") from error
    except LookupError as error:
        raise ValueError(f"its charset {charset[:40]!r} is not known") from error


def describe_faults(error: ValidationError) -> str:
    """The first faults, each with its field, without what was found."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[:3]
    faults = (f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in found)
    text = "; ".join(faults).replace(EXTRA_FIELD, UNKNOWN_FIELD)
    text += EXPECTED_JSON if found and found[0]["type"] == "json_invalid" else ""
    return text.replace("body: Value error, ", "").replace("Value error, ", "")


async def read_raw_body(request: web.Request, limit: int = BODY_LIMIT) -> bytes:
    """The body as it came, at most `limit` bytes. Raises HttpError."""
    if (request.content_length or 0) > limit:
        raise too_large(limit)
    try:
        # nothing is waited for where all of it is here
        async with asyncio.timeout(None if request.content.is_eof() else BODY_SECONDS):
            raw = await request.read()
    except TimeoutError as error:
        message = f"the body did not arrive within {BODY_SECONDS:.0f} s"
        raise HttpError(408, "timeout", message) from error
    except web.RequestPayloadError as error:
        raise invalid("the body is not what its Content-Encoding says") from error
    except ConnectionError as error:
        message = "the client closed the connection before the body was complete; nothing was kept"
        raise HttpError(499, "gone", message) from error
    if len(raw) > limit:
        raise too_large(limit)
    if BODY_HASH in request and request[BODY_HASH] != sha256(raw).hexdigest():
        raise HttpError(401, "unauthorized", "the body is not the one that was signed")
    return raw


def query_number(request: web.Request, name: str, *, least: int = 0, most: int = 2**53) -> int:
    """A whole number of the query."""
    raw = request.query.get(name, "0")
    if not (raw.isascii() and raw.isdigit() and len(raw) < 18 and least <= int(raw) <= most):
        raise invalid(f"{name}: found {raw!r}, expected a whole number from {least} to {most}")
    return int(raw)


async def require(client: DaemonClient, noun: str, name: str) -> Any:
    """The run or session of this name. Raises HttpError 404."""
    get = {"run": client.get_run, "session": client.get_session}.get(noun)
    if get is None or (view := await get(name)) is None:
        raise not_found(f"{noun} {name!r}")
    return view
