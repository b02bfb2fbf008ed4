"""The tool `ask_secret`: the owner enters a secret where nobody reads along (H2)."""

from collections.abc import Mapping

from daemon.core.errors import ConfigError, UsageError
from daemon.core.trust import Effect
from daemon.settings.redaction import format_handle
from daemon.settings.secrets import NAME, SecretStore, check_host
from daemon.tools.base import Tool, ToolContext, ToolError
from daemon.tools.signature import tool, with_check

MAX_WHY = 200


@tool(effect=Effect.READ, volatile=True, public=True, owner_only=True, asks=True, clean_only=True)
async def ask_secret(context: ToolContext, name: str, host: str, why: str = "") -> str:
    """Ask the owner for a secret (password, API key) that is kept for one host. You never see it:
    you write {{secret:NAME}} in http_request to that host. A log-in is two secrets.
    """
    if not context.turn.call(context.call_id).approved:
        return "It is not stored. Say what you cannot do without it."
    return f"It is stored, for {host} alone: write {format_handle(name)} there."


def secret_tool(secrets: SecretStore) -> Tool:
    """With a check of name and host before the owner is asked."""

    def check(given: Mapping[str, str]) -> None:
        if not NAME.fullmatch(given["name"]) or len(given["name"]) > MAX_WHY:
            raise ToolError("name: expected letters, digits, '_', '-', '.'")
        if len(given["why"]) > MAX_WHY:
            raise ToolError(f"why: expected at most {MAX_WHY} characters")
        try:
            check_host(given["host"])
            secrets.check_free(given["name"], given["host"])
        except (ConfigError, UsageError) as error:
            raise ToolError(str(error)) from error

    return with_check(ask_secret, check)
