"""GET /openapi.json: the API as an OpenAPI 3.1 document, made of the table of routes."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from daemon import VERSION
from daemon.client.protocol import DaemonClient
from daemon.client.view_types import HealthView
from daemon.core.trust import Resource, Right
from daemon.http.auth import EVENTS_PATH, HEALTH
from daemon.http.responses import json_response
from daemon.http.routes import Route, Routes
from daemon.http.sign_in import LOOK, REDEEM, SIGN_IN, SIGN_OUT, WHO, RedeemBody

OPENAPI = "/openapi.json"
SCHEMAS = "#/components/schemas/"
REFUSED = (
    "refused: 400 names the wrong field, 401 no or a wrong token, 403 not for this person, 404 no"
    " such thing, 409 not in its state, 413 too large, 429 too much at once (Retry-After says when)"
)
CAMEL = ("AttemptView", "CriteriaView", "LoopView")
"""Their names are written as HTTP clients of loops know them."""
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}
Json = dict[str, Any]


def make_document(routes: Routes) -> Json:
    """The document. Operations are named by method and path."""
    schemas: Json = {"Error": ERROR}
    refused = {"application/json": {"schema": {"$ref": f"{SCHEMAS}Error"}}}
    paths: Json = {}
    for (method, path), route in (*sorted(routes.items()), *OTHERS.items()):
        operation = _describe(method, path, route, schemas)
        paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "aidaemon", "version": VERSION},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {
                name: _to_camel_case(one) if name in CAMEL else one
                for name, one in sorted(schemas.items())
            },
            "responses": {"Refused": {"description": REFUSED, "content": refused}},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _to_camel_case(schema: Json) -> Json:
    properties = {to_camel(name): one for name, one in schema["properties"].items()}
    return {
        **schema,
        "properties": properties,
        "required": [to_camel(name) for name in schema.get("required", ())],
    }


async def _unused(client: DaemonClient, request: web.Request) -> web.Response:
    raise web.HTTPNotFound


def _other(summary: str, **given: Any) -> Route:
    async def described() -> None: ...

    described.__doc__ = summary
    return Route(Resource.RUNS, _unused, described=described, **given)


OTHERS: Mapping[tuple[str, str], Route] = {
    ("GET", HEALTH): _other("Whether the daemon serves; needs no token.", result=HealthView),
    ("GET", "/v1/runs/{turn}/events"): _other(
        "The run as server-sent events; Last-Event-ID resumes.", result="text/event-stream"
    ),
    ("GET", "/metrics"): _other("In Prometheus' text form.", result="text/plain"),
    ("GET", OPENAPI): _other("This document.", result=dict),
    ("POST", EVENTS_PATH): _other(
        "An event of the sender that is named, with its own token or signature.",
        result=dict,
        status=202,
    ),
    ("POST", SIGN_IN): _other(
        "A link that signs a browser in.", result=str, key="link", status=201
    ),
    ("POST", REDEEM): _other("Use the code of a link.", body=RedeemBody, result=dict),
    ("POST", LOOK): _other("Whom a code signs in.", body=RedeemBody, result=dict),
    ("POST", SIGN_OUT): _other("Forget the cookie.", result=dict),
    ("GET", WHO): _other("Who the token is of, and what they may do.", result=dict),
}
NO_TOKEN = (HEALTH, LOOK, REDEEM, SIGN_OUT)


def _describe(method: str, path: str, route: Route, schemas: Json) -> Json:
    in_path = re.findall(r"\{(\w+)\}", path)
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in in_path
    ]
    if route.query:
        schema = _add_schema(route.query, schemas, inline=True)
        needed = schema.get("required", [])
        parameters += [
            {"name": name, "in": "query", "required": name in needed, "schema": one}
            for name, one in schema["properties"].items()
            if name not in in_path
        ]
    responses = {str(route.status): _describe_response(route, schemas)}
    for status in ("4XX", "503"):
        responses[status] = {"$ref": "#/components/responses/Refused"}
    if path == HEALTH:
        responses["503"] = responses["200"]
    if (method, path) in ALSO_OK:
        responses["200"] = {"description": "ok", "content": {"application/json": {"schema": {}}}}
    operation: Json = {
        "operationId": re.sub(r"\W+", "_", f"{method.lower()}{path}").strip("_"),
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses,
    }
    if path in NO_TOKEN:
        operation["security"] = []
    elif (method, path) not in OTHERS:
        operation["x-right"] = _name_right(route.right)
    if route.body:
        schema = _add_schema(route.body, schemas)
        content: Json = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"required": True, "content": content}
    elif path == "/v1/files":
        kind: Json = {"application/octet-stream": {"schema": {"type": "string"}}}
        operation["requestBody"] = {"required": True, "content": kind}
    elif path == EVENTS_PATH:
        operation["requestBody"] = {"content": {"application/json": {"schema": {}}}}
    return operation


ALSO_OK = (
    ("POST", "/v1/messages"),
    ("POST", "/v1/terminal/{name}/messages"),
    ("POST", EVENTS_PATH),
)
"""They answer 200, too: a command, a run that was waited for, an event that was left out."""


def _name_right(right: Right | Resource) -> str:
    return f"see {right.value}" if isinstance(right, Resource) else right.name.lower()


def _describe_response(route: Route, schemas: Json) -> Json:
    if isinstance(route.result, str):
        return {"description": "ok", "content": {route.result: {"schema": {"type": "string"}}}}
    schema: Json = {"type": "object"}
    if route.result is not None:
        schema = _add_schema(route.result, schemas, by_alias=False)
    if route.key:
        schema = {"type": "object", "required": [route.key], "properties": {route.key: schema}}
    return {"description": "ok", "content": {"application/json": {"schema": schema}}}


def _add_schema(kind: Any, schemas: Json, *, inline: bool = False, by_alias: bool = True) -> Json:
    """The schema of a type; what it names goes among the others."""
    template = f"{SCHEMAS}{{model}}"
    found = TypeAdapter(kind).json_schema(by_alias=by_alias, ref_template=template)
    schemas.update(found.pop("$defs", {}))
    title = found.get("title")
    if inline or not title:
        return found
    schemas[title] = found
    return {"$ref": f"{SCHEMAS}{title}"}


def add_document(app: web.Application, routes: Routes) -> None:
    """Serve it to whoever has a token."""

    @cache
    def make() -> Json:
        return make_document(routes)

    async def show(request: web.Request) -> web.Response:
        return json_response(make())

    app.router.add_route("GET", OPENAPI, show)
