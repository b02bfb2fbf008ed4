"""The engine that the owner chose."""

from daemon.core.errors import ConfigError
from daemon.tools.net.client import WebClient
from daemon.tools.net.config import WebConfig
from daemon.tools.websearch import brave, tavily
from daemon.tools.websearch.base import SearchEngine
from daemon.tools.websearch.keyless import Keyless, is_installed
from daemon.tools.websearch.searxng import Searxng


def engine_of(config: WebConfig, client: WebClient) -> SearchEngine | None:
    """Who searches; None if nobody was chosen and none is installed. Raises ConfigError for a choice that lacks something."""
    match config.engine:
        case "searxng":
            return Searxng(client, _needed(config.base_url, config.engine, "base_url", "http://localhost:8888"))
        case "brave":
            return brave.Brave(client, _key(config), config.base_url or brave.BASE_URL)
        case "tavily":
            return tavily.Tavily(client, _key(config), config.base_url or tavily.BASE_URL)
        case "ddgs" if not is_installed():
            raise ConfigError("[tools.web] engine = \"ddgs\" needs a package that is not installed: pip install 'aidaemon[web]'")
        case _:
            return Keyless() if is_installed() else None


def _key(config: WebConfig) -> str:
    return _needed(config.api_key, config.engine, "api_key", "secret:NAME")


def _needed(value: str, engine: str, key: str, example: str) -> str:
    if not value:
        raise ConfigError(f'[tools.web] engine = "{engine}" needs {key}, as in {key} = "{example}"')
    return value
