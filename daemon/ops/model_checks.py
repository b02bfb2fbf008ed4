"""What `aidaemon doctor` finds about the models: they are there, answer, and call tools."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import aiohttp
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from daemon.core import value
from daemon.core.errors import ConfigError, ProviderError
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolSpec
from daemon.ops.models import DEFAULT_MODEL
from daemon.ops.own_models import find_model
from daemon.providers.chain import ModelRoute
from daemon.providers.config import FallbackConfig, ProviderConfig
from daemon.providers.http import make_auth_headers
from daemon.providers.local.engine import check_memory, check_runtime, get_free_memory

HTTP_TIMEOUT = aiohttp.ClientTimeout(total=5)
CheckState = Literal["ok", "warn", "fail"]
ANSWER_S, MAX_TOKENS = 60.0, 1024
QUESTION = "Call the tool `ready` now, with the word yes. Say nothing else."
TOOL = ToolSpec(
    "ready",
    "Tell that you are ready.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
RECOVERED = ", as text that is recovered"
NO_TOOLS = (
    "llama.cpp: start llama-server with --jinja; vLLM: with --enable-auto-tool-choice and"
    " --tool-call-parser; Ollama, LM Studio: take a model that is marked for tools"
)


@value
class ProbeResult:
    """How an address answered: its HTTP status, 0 for not at all, and then why."""

    status: int = 0
    error: str = ""
    body: bytes = b""

    @property
    def models(self) -> frozenset[str]:
        """Those it lists; empty where this is only the first page: other models may follow."""
        try:
            page = _Models.model_validate_json(self.body)
        except ValidationError:
            return frozenset()
        part = page.has_more or page.next_page
        return frozenset(
            one.id or one.name.removeprefix("models/") for one in page.data if not part
        )


class _Listed(BaseModel):
    id: str = ""
    name: str = ""  # Google's, a path


class _Models(BaseModel):
    data: list[_Listed] = Field(validation_alias=AliasChoices("data", "models"))
    has_more: bool = False
    next_page: str = Field("", validation_alias="nextPageToken")


async def probe_address(url: str, headers: Mapping[str, str]) -> ProbeResult:
    """GET it."""
    try:
        async with (
            aiohttp.ClientSession(timeout=HTTP_TIMEOUT, headers=headers, trust_env=True) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            return ProbeResult(response.status, body=await response.read())
    except TimeoutError:
        return ProbeResult(error="no answer within 5 seconds")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return ProbeResult(error=str(error) or type(error).__name__)


@value
class Finding:
    """Result of one check. `advice` is empty where all is well."""

    name: str
    state: CheckState
    found: str
    advice: str = ""


async def check_provider(
    provider: ProviderConfig, models: Path, routes: Sequence[ModelRoute]
) -> list[Finding]:
    """The model answers and calls tools, or would: the first one, and what it falls back on.
    `routes`: to each of them.
    """
    first, *others = routes
    checks = await _check_route("model", provider, models, first)
    for index, (fallback, route) in enumerate(zip(provider.fallbacks, others, strict=True)):
        checks += await _check_route(f"fallback {index}", fallback, models, route)
    return checks


async def _check_route(
    name: str, provider: ProviderConfig | FallbackConfig, models: Path, route: ModelRoute
) -> list[Finding]:
    model, address = provider.get_model(), provider.base_url
    if provider.kind == "local":
        return _check_local(name, model or DEFAULT_MODEL, models)
    headers = make_auth_headers(provider.kind, provider.api_key)
    key, model_key = f"provider.{name.replace('fallback ', 'fallbacks.')}", "model"
    if isinstance(provider, ProviderConfig):
        headers |= provider.extra_headers
        key, model_key = "provider", "models.primary"
    reached = await probe_address(f"{address}/models", headers)
    if reached.status in (401, 403):
        refused = f"{address} refuses the key (HTTP {reached.status})"
        return [Finding(name, "fail", refused, f"set {key}.api_key to a key that is good there")]
    if not reached.status or reached.status >= 500:
        trouble = f"{address}: {reached.error or f'HTTP {reached.status}'}"
        advice = f"look at {key}.base_url, the network and the server"
        return [Finding(name, "fail", trouble, advice)]
    if reached.models and model not in reached.models:
        advice = f"it lists {', '.join(sorted(reached.models)[:5])}; see {key}.{model_key}"
        return [Finding(name, "warn", f"{address} answers, but does not list {model}", advice)]
    answers = Finding(name, "ok", f"{address} answers; model {model}")
    return [answers, await _check_tools(f"{name} tools", route)]


async def _check_tools(name: str, route: ModelRoute) -> Finding:
    """A question as a chat has it, with a tool to call: some servers take a key, or a tool, only
    for the list of models.
    """
    request = ModelRequest((Message(MessageRole.USER, QUESTION),), (TOOL,), max_tokens=MAX_TOKENS)
    try:
        async with asyncio.timeout(ANSWER_S):
            reply = await route.provider.complete(route.model, request)
    except TimeoutError:
        found = f"{route} does not answer a question within {ANSWER_S:g} s"
        return Finding(name, "fail", found, "look at the server: is the model loaded?")
    except ProviderError as error:
        return Finding(name, "fail", str(error), "a chat would fail so, too; see [provider]")
    if any(call.name == TOOL.name for call in reply.calls):
        return Finding(name, "ok", "it calls tools" + RECOVERED * reply.recovered)
    return Finding(name, "warn", "it answers, but calls no tool: it can do nothing", NO_TOOLS)


def _check_local(name: str, model: str, models: Path) -> list[Finding]:
    """The runtime of embedded models is installed, the file is here, and there is memory."""
    extra = Finding("extras", "ok", "local: the runtime of embedded models is installed")
    try:
        check_runtime()
    except ConfigError as error:
        extra = Finding("extras", "fail", str(error), "pip install 'aidaemon[local]'")
    weights = Finding(name, "ok", f"{model} in {models}")
    try:
        wanted = find_model(model)
        check_memory(get_free_memory(), wanted.size)
        if not wanted.is_present(models):
            advice = f"aidaemon model pull {model}, or let `aidaemon chat` fetch it"
            weights = Finding(name, "warn", f"{model} is not in {models}", advice)
    except ConfigError as error:
        weights = Finding(name, "fail", str(error), "aidaemon model list")
    except ProviderError as error:
        advice = 'end other programs, or set kind = "openai" and base_url in [provider]'
        weights = Finding(name, "warn", str(error), advice)
    return [extra, weights]
