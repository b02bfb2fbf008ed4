"""The doctor's questions over the network: five seconds each, and no answer is an answer too."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import aiohttp
from pydantic import AliasChoices, BaseModel, Field, ValidationError

PATIENCE = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, slots=True)
class Reached:
    """How an address answered: its HTTP status, 0 for not at all, and then why."""

    url: str
    status: int = 0
    trouble: str = ""
    models: frozenset[str] = frozenset()


class _Listed(BaseModel):
    id: str = ""
    name: str = ""

    def model(self) -> str:
        """Google calls it by a path."""
        return self.id or self.name.removeprefix("models/")


class _Models(BaseModel):
    data: list[_Listed] = Field(validation_alias=AliasChoices("data", "models"))
    has_more: bool = False
    next_page: str = Field("", validation_alias="nextPageToken")

    def all(self) -> frozenset[str]:
        """Nothing, where this is only the first page: what is not on it may well be there."""
        part = self.has_more or self.next_page
        return frozenset() if part else frozenset(listed.model() for listed in self.data)


class _Running(BaseModel):
    pid: int
    url: str


class _Health(BaseModel):
    problems: list[str] = []


async def ask_provider(base_url: str, headers: Mapping[str, str]) -> Reached:
    """GET base_url/models: does the server answer, does it take the key, which models has it."""
    reached, body = await _get(f"{base_url}/models", headers)
    try:
        models = _Models.model_validate_json(body)
    except ValidationError:
        return reached
    return replace(reached, url=base_url, models=models.all())


async def ask_daemon(daemon_json: str) -> Reached:
    """GET /health of the daemon that daemon.json tells of."""
    try:
        running = _Running.model_validate_json(daemon_json)
    except ValidationError:
        return Reached("", trouble="daemon.json is not what a daemon writes")
    reached, body = await _get(f"{running.url.rstrip('/')}/health", {})
    try:
        problems = "; ".join(_Health.model_validate_json(body).problems)
    except ValidationError:
        problems = ""
    return Reached(running.url, reached.status, reached.trouble or problems)


async def _get(url: str, headers: Mapping[str, str]) -> tuple[Reached, bytes]:
    try:
        async with (
            aiohttp.ClientSession(timeout=PATIENCE, headers=headers, trust_env=True) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            return Reached(url, response.status), await response.read()
    except TimeoutError:
        return Reached(url, trouble="no answer within 5 seconds"), b""
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Reached(url, trouble=str(error) or type(error).__name__), b""
