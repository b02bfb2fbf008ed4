"""The table of the API: what each address needs, takes and gives. What a request may hold is read
off the signatures of `DaemonClient` and the fields of the values that it takes: that is the one
description, of which the checks of requests and the OpenAPI document are made.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import MISSING, fields, replace
from functools import partial
from inspect import Parameter, cleandoc, signature
from typing import Annotated, Any, cast, get_args, get_origin

from aiohttp import web
from pydantic import ConfigDict, ValidationError, create_model
from pydantic.alias_generators import to_camel

from daemon.client.loop_view import LoopView
from daemon.client.protocol import DaemonClient, Endpoint
from daemon.client.view_types import ApprovalView, RunLine, SessionView
from daemon.core import value
from daemon.core.reports import CostView, Spent
from daemon.core.requests import NOT_BLANK
from daemon.core.trust import Person, Resource, Right
from daemon.http.auth import Handler, sees_others_only
from daemon.http.responses import (
    PERSON,
    Body,
    BodyT,
    Text,
    describe_faults,
    invalid,
    json_response,
    read_body,
    require,
)


class Query(Body):
    """The query of a request; what it does not know is left out."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class CamelBody(Body):
    """A body whose names are written as HTTP clients of loops know them."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


@value
class Route:
    """What an address needs, takes and gives: `result` is the type of the response, `key` its name
    in it where it is not the whole, `status` that of success. `described`: what has its docstring,
    where the handler has none.
    """

    right: Right | Resource
    handler: Handler
    query: type[Body] | None = None
    body: type[Body] | None = None
    result: Any = None
    key: str = ""
    status: int = 200
    described: Callable[..., Any] | None = None

    @property
    def summary(self) -> str:
        """What it does, from a docstring."""
        text = cleandoc((self.described or self.handler).__doc__ or "")
        return " ".join(text.split("\n\n")[0].split())


MAX_PAGES = 20
Routes = dict[tuple[str, str], Route]
"""By method and address pattern."""


def read_endpoints() -> dict[str, Endpoint]:
    """The methods of the client that are requests."""
    found = ((name, getattr(DaemonClient, name)) for name in dir(DaemonClient))
    return {name: vars(one)["endpoint"] for name, one in found if "endpoint" in dir(one)}


def make_route(name: str, endpoint: Endpoint, body: type[Body] | None = None) -> Route:
    """The route of a method of the client; `body` where its signature does not say it."""
    method = getattr(DaemonClient, name)
    in_path = f"{endpoint.path}?".format_map(_Names())
    given = {
        one.name: (one.annotation, ... if one.default is Parameter.empty else one.default)
        for one in [*signature(method).parameters.values()][1:]
        if one.name != "by" and f"<{one.name}>" not in in_path
    }
    is_read = endpoint.method in ("GET", "DELETE")
    title = name.title().replace("_", "")
    query: type[Body] | None = None
    if given and is_read:
        query = make_model(title, Query, given)
    elif given:
        body = body or make_model(title, Body, given)
    call = partial(call_client, name, endpoint, query, body)
    gives = {"result": endpoint.result, "key": endpoint.key, "described": method}
    return Route(endpoint.right, call, query, body, **gives)


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return f"<{name}>"


def make_model(name: str, base: type[BodyT], given: Mapping[str, tuple[Any, Any]]) -> type[BodyT]:
    """A model of these fields: (type, default or ... for none)."""
    types: Any = {field: (_with_checks(kind), default) for field, (kind, default) in given.items()}
    return cast(type[BodyT], create_model(name, __base__=base, **types))


def list_fields(
    kind: type, *left_out: str, **changed: tuple[Any, Any]
) -> dict[str, tuple[Any, Any]]:
    """The fields of a value, as `make_model` takes them, but those left out; `changed` stand in
    their place.
    """
    own = {
        one.name: (one.type, ... if one.default is MISSING else one.default)
        for one in fields(cast(Any, kind))
        if one.name not in left_out
    }
    return own | changed


def _with_checks(kind: Any) -> Any:
    return Text if get_origin(kind) is Annotated and NOT_BLANK in get_args(kind) else kind


async def call_client(
    name: str,
    endpoint: Endpoint,
    query: type[Body] | None,
    body: type[Body] | None,
    client: DaemonClient,
    request: web.Request,
) -> web.Response:
    """Call this method of the client with what the path, the query and the body say."""
    method: Any = getattr(client, name)
    path = dict(request.match_info)
    given: dict[str, Any] = {**path}
    if query:
        given |= _set_fields(read_query(request, query))
    if body:
        given |= _set_fields(await read_body(request, body))
    if "by" in signature(method).parameters:
        given["by"] = request[PERSON]
    result = await method(**given)
    if isinstance(endpoint.right, Resource) and isinstance(result, list):
        show = partial(hide_private, client, request[PERSON], endpoint.right)
        result = await _fill_page(method, given, result, show)
    if isinstance(result, CostView):
        shown = await hide_private(client, request[PERSON], Resource.RUNS, result.sessions)
        result = replace(result, sessions=shown)
    if endpoint.missing and not result:
        await require(client, endpoint.missing, *path.values())
    if endpoint.key or result is None:
        given.pop("by", None)
        result = {**path, endpoint.key: result} if endpoint.key else given
    return json_response(result)


async def _fill_page(
    method: Any,
    given: dict[str, Any],
    found: list[Any],
    show: Callable[[list[Any]], Awaitable[list[Any]]],
) -> list[Any]:
    """What may be seen of these; where something is hidden, the rows after them take its place."""
    limit, shown = given.get("limit"), await show(found)
    if limit is None or "after" not in given or len(shown) == len(found):
        return shown
    for _ in range(MAX_PAGES):
        if len(shown) >= limit or len(found) < limit:
            break
        last = found[-1]
        after = last.turn if isinstance(last, RunLine) else last.id
        found = await method(**{**given, "after": after})
        shown += await show(found)
    return shown[:limit]


def _set_fields(model: Body) -> dict[str, Any]:
    return {name: getattr(model, name) for name in type(model).model_fields}


def read_query(request: web.Request, model: type[BodyT]) -> BodyT:
    """The query as this model. Raises HttpError that names the wrong value."""
    try:
        return model.model_validate(dict(request.query))
    except ValidationError as error:
        raise invalid(describe_faults(error).replace(": Field required", ": is missing")) from error


async def hide_private(
    client: DaemonClient, person: Person, resource: Resource, items: list[Any]
) -> list[Any]:
    """Without those in conversations of the owner's own that this person does not see."""
    if not sees_others_only(person, resource):
        return items
    private = await client.find_private({session for one in items if (session := _session_of(one))})
    return [one for one in items if _session_of(one) not in private]


def _session_of(item: object) -> str:
    """The conversation that an item of a list is of; "" for what the path has named."""
    if isinstance(item, SessionView):
        return item.id
    if isinstance(item, Spent):
        return item.name
    return item.session if isinstance(item, RunLine | ApprovalView | LoopView) else ""
