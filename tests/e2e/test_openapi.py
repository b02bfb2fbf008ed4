"""The API as its document says it: what it describes is served, and no request that fits or does not fit it breaks the
daemon (done means 5 of the page)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from daemon.http.openapi import make_document
from daemon.http.resources import ROUTES
from tests.fakes.daemon_process import TOKEN, Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, says

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
DOCUMENT = make_document(ROUTES)
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if path != "/v1/runs/{turn}/events"
]
EXAMPLES = 15
LIMITED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    model.otherwise(says("ok"))
    sender = '[events]\nenabled = true\n[events.tokens]\nci = "ci-token"\n[budget]\ndaily_usd = 0\n'
    async with running_daemon(home, scripted(model.base_url, sender)) as daemon:
        yield daemon


async def test_the_document_that_is_served_is_the_one_of_the_table(daemon: Daemon) -> None:
    assert await daemon.get("/openapi.json") == DOCUMENT


async def test_the_document_needs_a_token_and_describes_every_address(daemon: Daemon) -> None:
    async with daemon.http.get("/openapi.json", headers={"Authorization": ""}) as response:
        assert response.status == 401
    described = {
        (method.upper(), path)
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
    }
    assert set(ROUTES) <= described


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_no_request_breaks_the_daemon_and_each_answer_is_as_described(
    daemon: Daemon, operation: str
) -> None:
    await ask_all(daemon, operation, {})


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if "{" in one])
async def test_it_is_so_for_things_that_are_there(daemon: Daemon, operation: str) -> None:
    known = {"session": "web:default", "agent": "default"}
    known["turn"] = str((await daemon.ask("hello"))["turn"])
    await ask_all(daemon, operation, known)


async def ask_all(daemon: Daemon, operation: str, known: Mapping[str, str]) -> None:
    """Requests as the document describes this operation; these names are put into their paths."""
    method, path = operation.split(" ")
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.config.update(base_url=daemon.url)
    described = schema[path][method]

    @LIMITED
    @given(described.as_strategy())
    def ask(case: schemathesis.Case) -> None:
        given = {name: known.get(name, found) for name, found in case.path_parameters.items()}
        case.path_parameters = given
        response = case.call(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20)
        case.validate_response(response, checks=CHECKS)

    await asyncio.to_thread(ask)
