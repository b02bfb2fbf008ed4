"""JSON-RPC messages as servers send them: an answer that breaks the rules is mended where it is
plain what is meant; else it becomes an error that says what is wrong with it.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field

from mcp.types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from daemon.tools.mcp.answers import describe

REFUSED, CUT_OFF, UNREADABLE, SESSION_REFUSED = -32_950, -32_951, -32_952, -32_953
# What only this side says: of its connection, and of an answer.
OWN_CODES = (CONNECTION_CLOSED, REQUEST_TIMEOUT, REFUSED, CUT_OFF, UNREADABLE, SESSION_REFUSED)


@dataclass(slots=True)
class OpenRequests:
    """The ids of our requests that wait for an answer, and the last one given out, from 0 on; those
    that were cancelled and may be answered all the same.
    """

    ids: set[RequestId] = field(default_factory=set)
    cancelled: set[RequestId] = field(default_factory=set)
    last: int = -1

    def note(self, message: JSONRPCMessage) -> None:
        """What we send: a request begins to wait, a cancelled one does so no more."""
        if isinstance(message, JSONRPCRequest):
            self.ids.add(message.id)
            self.last = message.id if isinstance(message.id, int) else self.last
        elif isinstance(message, JSONRPCNotification) and message.params:
            number = message.params.get("requestId", "")
            self.cancelled |= self.ids & {number}
            self.ids.discard(number)

    def find(self, given: object) -> RequestId | None:
        """The request that an answer with this id is for; without an id of ours it can only be for
        the only one that waits. None for one that waits no more and was not cancelled.
        """
        if isinstance(given, str) and given.isdecimal():
            given = int(given)
        if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= self.last:
            return given if given in self.ids | self.cancelled else None
        return next(iter(self.ids)) if len(self.ids) == 1 else None


def read_message(data: bytes, asked: OpenRequests) -> JSONRPCMessage:
    """One message. Raises ValueError for what is none, and for an answer to nothing."""
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
        given = json.loads(text.encode("utf-8", "replace"))  # half a character is none
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(given, dict):
        raise ValueError("it is no JSON object")
    if given.keys().isdisjoint(("result", "error")) and ("method" in given or "id" not in given):
        params = given["params"] if isinstance(given.get("params"), dict) else None
        table = {**given, "jsonrpc": "2.0", "params": params}
        return jsonrpc_message_adapter.validate_python(table, by_name=False)
    number = asked.find(given.get("id"))
    if number is None:
        raise ValueError("it answers no request that waits")
    asked.ids.discard(number)
    asked.cancelled.discard(number)
    result, error = given.get("result"), given.get("error")
    if isinstance(result, dict) and error is None:
        return JSONRPCResponse(jsonrpc="2.0", id=number, result=result)
    return JSONRPCError(jsonrpc="2.0", id=number, error=_read_error(error, result))


def read_messages(data: bytes, asked: OpenRequests) -> list[JSONRPCMessage]:
    """As `list_messages`, of JSON."""
    return list_messages(parse(data), asked)


def parse(data: bytes) -> object:
    """What JSON says. Raises ValueError."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def list_messages(given: object, asked: OpenRequests) -> list[JSONRPCMessage]:
    """The messages of a batch, or the only one; what is none is left out. Raises ValueError where
    there is none.
    """
    found = list[JSONRPCMessage]()
    for one in given if isinstance(given, list) else [given]:
        with suppress(ValueError):
            found.append(read_message(json.dumps(one).encode(), asked))
    if not found:
        raise ValueError("it holds no message")
    return found


def _read_error(error: object, result: object) -> ErrorData:
    if error is None:
        why = f"the result of its answer is no JSON object: {describe(result)}"
        return ErrorData(code=UNREADABLE, message=why)
    told = error if isinstance(error, dict) else {}
    code, message = told.get("code"), told.get("message")
    is_code = isinstance(code, int) and not isinstance(code, bool)
    words = message if isinstance(message, str) and message else describe(error)
    is_ours = code in OWN_CODES  # the server means its own error, such as -32000
    return ErrorData(
        code=code if is_code and not is_ours else 0, message=words, data=told.get("data")
    )
