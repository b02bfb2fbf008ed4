"""Tools of a server as the house's own kind: what they do is what the config says, never what the server says (A22)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from daemon.core.label import Effect, Label
from daemon.core.messages import ToolSpec
from daemon.tools.base import RetryableToolError, Tool, ToolContext, ToolError, ToolMeta, ToolOutput
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.naming import shown_name
from daemon.tools.mcp.session import Definition, NoAnswer, NotSent, Said
from daemon.tools.mcp.texts import DESCRIPTION_CHARS, RESULT_CHARS, SCHEMA_CHARS, UnfitSchema, clean, clean_schema

TIMEOUT_S = 120.0
RETRIES = 3
READING = (Effect.READ, Effect.FETCH)
OFF = (
    "{tool} is switched off, and nothing was done: the MCP server {server} describes it otherwise than its owner has approved. "
    "Tell the user: `/mcp` shows the change, and what to say to approve it."
)
STANDS_OFF = "Switched off until the owner of this house has approved it."


class Changed(ToolError):
    """The tool is not what the owner has approved."""


class Calls(Protocol):
    """Who takes a call to the server."""

    async def call(self, definition: Definition, arguments: Mapping[str, object]) -> Said:
        """Ask the server once. Raises NotSent, NoAnswer, Changed."""
        ...


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the tools of one server."""

    server: str
    config: McpConfig
    calls: Calls = field(repr=False)

    def usable(self, definition: Definition) -> Tool:
        """A tool that can be called. Raises UnfitSchema."""
        name = shown_name(self.server, definition.name)

        async def run(arguments: Mapping[str, object], context: ToolContext) -> ToolOutput:
            return await self._run(name, definition, arguments)

        return Tool(_spec(name, definition), self._meta(definition.name), run)

    def off(self, definition: Definition, *, known: bool) -> Tool:
        """One that says why it cannot be called; a person is not even asked. A known one keeps the words that were approved."""
        name = shown_name(self.server, definition.name)
        spec = _spec(name, definition) if known else ToolSpec(name, STANDS_OFF, {"type": "object", "properties": {}})

        def check(arguments: Mapping[str, object]) -> None:
            raise Changed(OFF.format(tool=name, server=self.server))

        async def run(arguments: Mapping[str, object], context: ToolContext) -> ToolOutput:
            raise Changed(OFF.format(tool=name, server=self.server))

        return Tool(spec, self._meta(definition.name), run, check)

    def _meta(self, tool: str) -> ToolMeta:
        effect = self.config.effects.get(tool, self.config.default_effect)
        named = self.config.critical.get(tool)
        return ToolMeta(
            effect=effect,
            parallel=effect in READING,
            idempotent=effect is Effect.READ,
            retries=RETRIES if effect is Effect.READ else 0,
            timeout_s=TIMEOUT_S,
            critical=None if named is None else tuple(named),
            volatile=True,
            max_chars=RESULT_CHARS,
            outside=True,
            source=f"mcp {self.server}",
        )

    async def _run(self, name: str, definition: Definition, arguments: Mapping[str, object]) -> ToolOutput:
        sent = {key: value for key, value in arguments.items() if not key.startswith("_")}
        reads = self._meta(definition.name).effect is Effect.READ
        try:
            said = await self.calls.call(definition, sent)
        except NotSent as error:
            raise RetryableToolError(f"{name} was not called, so nothing has happened: {error}") from error
        except NoAnswer as error:
            if reads:
                raise RetryableToolError(f"{name} gave no answer: the connection to its MCP server broke off") from error
            raise ToolError(
                f"{name} was called and no answer came: it may or may not have happened. It was not called again. Tell the user."
            ) from error
        return self._output(definition.name, said)

    def _output(self, tool: str, said: Said) -> ToolOutput:
        trusted = tool in self.config.trusted_output and not said.is_error
        label = Label.TRUSTED if trusted else Label.UNTRUSTED
        return ToolOutput(clean(said.text, RESULT_CHARS), is_error=said.is_error, label=label)


def fit(definition: Definition) -> str:
    """Why this tool cannot be offered to a model; "" when it can."""
    if len(definition.schema) > SCHEMA_CHARS:
        return f"it describes its arguments in {len(definition.schema)} characters; {SCHEMA_CHARS} are the most"
    try:
        _spec("", definition)
    except UnfitSchema as error:
        return str(error)
    return ""


def _spec(name: str, definition: Definition) -> ToolSpec:
    described = clean(definition.description[:DESCRIPTION_CHARS], DESCRIPTION_CHARS)
    return ToolSpec(name, described, clean_schema(json.loads(definition.schema)))
