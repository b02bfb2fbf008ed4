"""The engine that the owner chose."""

from collections.abc import Callable
from typing import cast

from daemon import plugins
from daemon.core.errors import ConfigError
from daemon.tools.net.client import WebClient
from daemon.tools.net.config import WebConfig
from daemon.tools.websearch.base import SearchEngine
from daemon.tools.websearch.keyless import Keyless, is_installed

Make = Callable[..., SearchEngine]


def engine_of(config: WebConfig, client: WebClient) -> SearchEngine | None:
    """Who searches; None if nobody was chosen and none is installed. Raises ConfigError for a choice that lacks something."""
    match config.engine:
        case "searxng":
            return _made(config, client, _needed(config.base_url, config.engine, "base_url", "http://localhost:8888"))
        case "brave" | "tavily":
            return _made(config, client, _key(config), *([config.base_url] if config.base_url else []))
        case "ddgs" if not is_installed():
            raise ConfigError("[tools.web] engine = \"ddgs\" needs a package that is not installed: pip install 'aidaemon[web]'")
        case _:
            return Keyless() if is_installed() else None


def _made(config: WebConfig, *parts: object) -> SearchEngine:
    return cast(Make, plugins.load("websearch", config.engine))(*parts)


def _key(config: WebConfig) -> str:
    return _needed(config.api_key, config.engine, "api_key", "secret:NAME")


def _needed(value: str, engine: str, key: str, example: str) -> str:
    if not value:
        raise ConfigError(f'[tools.web] engine = "{engine}" needs {key}, as in {key} = "{example}"')
    return value
