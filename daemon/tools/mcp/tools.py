"""Text of a server made fit for a model: nothing hidden in it, and not too much of it (A6 of the reference).

What the tools of a server are called: `SERVER__tool`, fit for every provider, and never the name of another tool.

Tools of a server as the house's own kind: what they do is what the config says, never what the server says (A22).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256
from typing import Protocol

from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect, Label
from daemon.tools.base import RetryableToolError, Tool, ToolContext, ToolError, ToolMeta, ToolOutput
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.protocol import CallAnswer, NoAnswer, NotSent, ServerTool
from daemon.tools.results import to_printable, truncate_middle

# What is in a text without being seen: soft and zero-width marks, fillers, direction overrides, variation selectors, tags.
HIDDEN_CHARS = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
BREAKS = re.compile("[\u0085\u2028\u2029]")
DESCRIPTION_CHARS = 2000
RESULT_CHARS = 20_000
SCHEMA_CHARS = 32_000
MAX_DEPTH = 24
TEXT_KEYS = ("description", "title", "$comment")
NAME_KEYS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


class UnfitSchema(AidaemonError):
    """The tool describes its arguments in a way that no model can be shown."""


def sanitize(text: str, limit: int) -> str:
    """Without control and hidden characters; of a longer text the beginning and the end."""
    return HIDDEN_CHARS.sub("", to_printable(BREAKS.sub("\n", truncate_middle(text, limit))))


def sanitize_line(text: str, limit: int = 200) -> str:
    """For logs and notices."""
    text = " ".join(sanitize(text[: 4 * limit], 4 * limit).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def sanitize_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema as a model is shown it. A default that is text is left out: the server fills it in itself, and a model would
    take it for advice. Raises UnfitSchema where a name or a choice has hidden characters, for these must stay as they are.
    """
    shown = _sanitize_table(schema, 0)
    return {**shown, "type": "object", "properties": shown.get("properties", {})}


def _sanitize_table(
    schema: Mapping[str, object], depth: int, *, of_names: bool = False
) -> dict[str, object]:
    """A schema; or, with `of_names`, schemas by names that the server has chosen."""
    kept = {
        name: value for name, value in schema.items() if of_names or not _is_advice(name, value)
    }
    return {
        _check_exact(name): _sanitize_value(value, "" if of_names else name, depth + 1)
        for name, value in kept.items()
    }


def _sanitize_value(value: object, key: str, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise UnfitSchema("its arguments are nested too deeply")
    match value:
        case str():
            return sanitize(value, DESCRIPTION_CHARS) if key in TEXT_KEYS else _check_exact(value)
        case dict():
            return _sanitize_table(value, depth, of_names=key in NAME_KEYS)
        case list():
            return [_sanitize_value(inner, "", depth + 1) for inner in value]
        case _:
            return value


def _is_advice(name: str, value: object) -> bool:
    return name == "examples" or (name == "default" and not isinstance(value, bool | int | float))


def _check_exact(text: str) -> str:
    if HIDDEN_CHARS.search(text) or to_printable(text) != text:
        raise UnfitSchema("a name or a choice among its arguments has hidden characters")
    return text


SEPARATOR = "__"
MAX_NAME_CHARS = 64
UNFIT_CHARS = re.compile(r"[^A-Za-z0-9_-]")
MARK_CHARS = 6


def exposed_name(server: str, tool: str) -> str:
    """The name that the model and people see. It depends on these two alone, so it is the same after every start; one that had
    to be changed has a mark at its end that no other tool has.
    """
    fit = server + SEPARATOR + UNFIT_CHARS.sub("_", tool)
    if fit == server + SEPARATOR + tool and tool and len(fit) <= MAX_NAME_CHARS:
        return fit
    mark = sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARS]
    return f"{fit[: MAX_NAME_CHARS - MARK_CHARS - 1]}_{mark}"


TIMEOUT_S = 120.0
RETRIES = 3
READ_EFFECTS = (Effect.READ, Effect.FETCH)
DISABLED = (
    "{tool} is switched off, and nothing was done: the MCP server {server} describes it otherwise than its owner has approved. "
    "Tell the user: `/mcp` shows the change, and what to say to approve it."
)
DISABLED_DESCRIPTION = "Switched off until the owner of this house has approved it."


class ToolChanged(ToolError):
    """The tool is not what the owner has approved."""


class ServerCalls(Protocol):
    """Who takes a call to the server."""

    async def call(self, definition: ServerTool, arguments: Mapping[str, object]) -> CallAnswer:
        """Ask the server once. Raises NotSent, NoAnswer, Changed."""
        ...


@value
class ToolMaker:
    """Makes the tools of one server."""

    server: str
    config: McpConfig
    calls: ServerCalls = field(repr=False)

    def usable(self, definition: ServerTool) -> Tool:
        """A tool that can be called. Raises UnfitSchema."""
        name = exposed_name(self.server, definition.name)

        async def run(arguments: Mapping[str, object], context: ToolContext) -> ToolOutput:
            return await self._run(name, definition, arguments)

        return Tool(_tool_spec(name, definition), self._meta(definition.name), run)

    def disabled(self, definition: ServerTool, *, known: bool) -> Tool:
        """One that says why it cannot be called; a person is not even asked. A known one keeps the words that were approved."""
        name = exposed_name(self.server, definition.name)
        spec = (
            _tool_spec(name, definition)
            if known
            else ToolSpec(name, DISABLED_DESCRIPTION, {"type": "object", "properties": {}})
        )

        def check(arguments: Mapping[str, object]) -> None:
            raise ToolChanged(DISABLED.format(tool=name, server=self.server))

        async def run(arguments: Mapping[str, object], context: ToolContext) -> ToolOutput:
            raise ToolChanged(DISABLED.format(tool=name, server=self.server))

        return Tool(spec, self._meta(definition.name), run, check)

    def _meta(self, tool: str) -> ToolMeta:
        effect = self.config.effects.get(tool, self.config.default_effect)
        named = self.config.critical.get(tool)
        return ToolMeta(
            effect=effect,
            parallel=effect in READ_EFFECTS,
            idempotent=effect is Effect.READ,
            retries=RETRIES if effect is Effect.READ else 0,
            timeout_s=TIMEOUT_S,
            critical=None if named is None else tuple(named),
            volatile=True,
            max_chars=RESULT_CHARS,
            returns_outside_text=True,
            source=f"mcp {self.server}",
        )

    async def _run(
        self, name: str, definition: ServerTool, arguments: Mapping[str, object]
    ) -> ToolOutput:
        sent = {key: value for key, value in arguments.items() if not key.startswith("_")}
        reads = self._meta(definition.name).effect is Effect.READ
        try:
            said = await self.calls.call(definition, sent)
        except NotSent as error:
            raise RetryableToolError(
                f"{name} was not called, so nothing has happened: {error}"
            ) from error
        except NoAnswer as error:
            if reads:
                raise RetryableToolError(
                    f"{name} gave no answer: the connection to its MCP server broke off"
                ) from error
            raise ToolError(
                f"{name} was called and no answer came: it may or may not have happened. It was not called again. Tell the user."
            ) from error
        return self._output(definition.name, said)

    def _output(self, tool: str, said: CallAnswer) -> ToolOutput:
        trusted = tool in self.config.trusted_output and not said.is_error
        label = Label.TRUSTED if trusted else Label.UNTRUSTED
        return ToolOutput(sanitize(said.text, RESULT_CHARS), is_error=said.is_error, label=label)


def why_unfit(definition: ServerTool) -> str:
    """Why this tool cannot be offered to a model; "" when it can."""
    if len(definition.schema) > SCHEMA_CHARS:
        return f"it describes its arguments in {len(definition.schema)} characters; {SCHEMA_CHARS} are the most"
    try:
        _tool_spec("", definition)
    except UnfitSchema as error:
        return str(error)
    return ""


def _tool_spec(name: str, definition: ServerTool) -> ToolSpec:
    described = sanitize(definition.description[:DESCRIPTION_CHARS], DESCRIPTION_CHARS)
    return ToolSpec(name, described, sanitize_schema(json.loads(definition.schema)))
