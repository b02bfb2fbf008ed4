"""Tools of MCP servers as our own: what they do is what the config says, never what the server says
(A22).
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from http import HTTPStatus

from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.core.events import ApprovalAnswered
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect, Label
from daemon.tools.base import (
    Arguments,
    RetryableToolError,
    ServiceUnavailable,
    Tool,
    ToolContext,
    ToolError,
    ToolMeta,
    ToolOutput,
)
from daemon.tools.calls import READ_EFFECTS, to_printable, truncate_middle
from daemon.tools.mcp.config import McpConfig

# Invisible: soft and zero-width marks, fillers, direction overrides, variation selectors, tags.
HIDDEN_CHARS = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
BREAKS = re.compile("[\u0085\u2028\u2029]")
DESCRIPTION_CHARS = 2000
RESULT_CHARS = 20_000
SCHEMA_CHARS = 32_000
MAX_DEPTH = 24
MAX_NAME_CHARS, MARK_CHARS = 64, 6
TIMEOUT_S = 120.0
RETRIES = 3
TEXT_KEYS = ("description", "title", "$comment")
NAME_KEYS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SCHEMA_KEYS = ("additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
PARTS = {
    **dict.fromkeys((*NAME_KEYS, "dependentRequired"), dict),
    **dict.fromkeys((*SCHEMA_LISTS, "required", "enum"), list),
    **dict.fromkeys((*TEXT_KEYS, "$ref", "pattern", "format"), str),
    **dict.fromkeys(SCHEMA_KEYS, (dict, bool)),
    "items": (dict, bool, list),
    "type": (str, list),
}
TABLES = frozenset(key for key, kinds in PARTS.items() if kinds in (dict, (dict, bool)))
WITH_SCHEMAS = frozenset((*SCHEMA_LISTS, *SCHEMA_KEYS, *NAME_KEYS, "items"))
HINTS = {
    ("readOnlyHint", True): "only reads",
    ("destructiveHint", True): "may destroy",
    ("openWorldHint", True): "reaches outside",
    ("openWorldHint", False): "reaches nothing outside",
}
ADVICE = dict.fromkeys((*TEXT_KEYS, "format"), str)
MIN_KIND_CHARS = 3
KINDS = frozenset(("null", "boolean", "object", "array", "number", "string", "integer"))
# An empty registry: a reference in a server's schema fetches nothing.
# How programs tell the status of a server that failed: "HTTP 503", "status code: 502", "500
# Internal Server Error".
PHRASES = "|".join(re.escape(one.phrase) for one in HTTPStatus if one >= 500)
SERVER_STATUS = re.compile(
    r"\b(?:http(?:/[\d.]+)?|(?:status|error)(?:[ _]?code)?|code)\b[\"'\s:=(\[]{1,5}"
    r"5(?:0\d|1[01]|2\d)\b"
    rf"|\b5(?:0\d|1[01]|2\d)[\s:,-]{{1,3}}(?:{PHRASES}|server error)\b",
    re.IGNORECASE,
)
STATUS_CHARS = 1000
OnChanged = Callable[[], None]
OnProgress = Callable[[str], None]
OnStderrLine = Callable[[str], None]


class NotSent(AidaemonError):
    """There is no connection, so the request did not reach the server: nothing has happened."""


class Refused(AidaemonError):
    """The server said no."""


class SessionRefused(NotSent):
    """The server turned a request of this session away; `is_certain`: it was not carried out."""

    def __init__(self, text: str, *, is_certain: bool) -> None:
        super().__init__(text)
        self.is_certain = is_certain


class NoAnswer(AidaemonError):
    """The request was sent and no answer came: its effect may or may not have happened."""


class UnreadableAnswer(AidaemonError):
    """An answer came, and says nothing that can be read: what was asked may have been done."""


@value
class ServerTool:
    """A tool as its server describes it. `schema` and `annotations` are JSON with sorted keys."""

    name: str
    description: str
    schema: str
    annotations: str = "{}"
    output_schema: str = ""

    @property
    def digest(self) -> str:
        """Equal for equal definitions only."""
        text = json.dumps([self.name, self.description, self.schema, self.annotations])
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@value
class ProcessAddress:
    """A server that is our child process."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    fds: tuple[int, ...] = ()
    is_sandboxed: bool = False


@value
class UrlAddress:
    """A server that listens at a URL."""

    url: str
    headers: Mapping[str, str]


def stable_json(table: object) -> str:
    """The same text for the same value."""
    return json.dumps(table, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class UnfitTool(AidaemonError):
    """The tool cannot be offered to a model."""


def sanitize(text: str, limit: int) -> str:
    """Remove control and hidden characters; cut the middle of a longer text."""
    return HIDDEN_CHARS.sub("", to_printable(BREAKS.sub("\n", truncate_middle(text, limit))))


def sanitize_line(text: str, limit: int = 200) -> str:
    """One short line, for logs and notices."""
    text = " ".join(sanitize(text[: 4 * limit], 4 * limit).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def sanitize_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema as a model may see it, without examples and textual defaults: these are advice.

    Raises UnfitTool where a name or a choice, which must stay exact, has hidden characters.
    """
    shown = _sanitize_value(schema, "", 0)
    assert isinstance(shown, dict)
    return {**shown, "type": "object", "properties": shown.get("properties", {})}


def _sanitize_value(part: object, key: str, depth: int, *, is_schema: bool = True) -> object:
    """Under a key in NAME_KEYS the server has chosen the names, and each has a schema."""
    if depth > MAX_DEPTH:
        raise UnfitTool("its arguments are nested too deeply")
    if is_schema and not key and not isinstance(part, dict | bool):
        raise UnfitTool(f"its inputSchema is malformed: {part!r:.80} is no schema")
    is_named = key in NAME_KEYS
    match part:
        case str():
            return sanitize(part, DESCRIPTION_CHARS) if key in TEXT_KEYS else _check_exact(part)
        case dict():
            if is_schema and not is_named:
                part = _check_parts(part)
            return {
                _check_exact(name): _sanitize_value(
                    inner, "" if is_named else name, depth + 1,
                    is_schema=is_schema and (is_named or name in WITH_SCHEMAS),
                )
                for name, inner in part.items()
                if is_named
                or (name != "examples" and (name != "default" or isinstance(inner, int | float)))
            }  # fmt: skip
        case list():
            return [_sanitize_value(one, "", depth + 1, is_schema=is_schema) for one in part]
        case _:
            return part


def fill_tables(schema: Mapping[str, object]) -> dict[str, object]:
    """PHP writes an empty list for an empty object."""
    return {key: {} if part == [] and key in TABLES else part for key, part in schema.items()}


def _check_parts(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema without the nulls that some servers write for nothing, and without advice and
    marks of older drafts that no provider takes. Raises UnfitTool for what no provider takes for
    a schema.
    """
    given = fill_tables(schema)
    found = {
        key: part
        for key, part in given.items()
        if (part is not None or key == "const") and isinstance(part, ADVICE.get(key, object))
    }
    if isinstance(found.get("required"), bool):  # as drafts before the fourth have it
        del found["required"]
    if "type" in found:
        found["type"] = _mend_type(found["type"])
    for key, part in found.items():
        if not isinstance(part, PARTS.get(key, object)):
            raise UnfitTool(f"its inputSchema is malformed: {key} is a {type(part).__name__}")
    kinds = found.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if not isinstance(kind, str) or kind not in KINDS:
            raise UnfitTool(f"its inputSchema is malformed: {kind!r:.80} is no type")
    return found


def _mend_type(kind: object) -> object:
    """As JSON Schema spells it, where it is written in other letters or cut: STRING, int, bool."""
    if isinstance(kind, list):
        return [_mend_type(one) for one in kind]
    if not isinstance(kind, str) or kind in KINDS or len(kind) < MIN_KIND_CHARS:
        return kind
    meant = [one for one in KINDS if one.startswith(kind.lower())]
    return meant[0] if len(meant) == 1 else kind


def _check_exact(text: str) -> str:
    if HIDDEN_CHARS.search(text) or to_printable(text) != text:
        raise UnfitTool("a name or a choice among its arguments has hidden characters")
    return text


def make_tool_name(server: str, tool: str) -> str:
    """`SERVER__tool`, fit for every provider; a changed name ends with a hash, so none is used
    twice.
    """
    fit = f"{server}__" + re.sub(r"[^A-Za-z0-9_-]", "_", tool)
    if fit == f"{server}__{tool}" and tool and len(fit) <= MAX_NAME_CHARS:
        return fit
    mark = sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARS]
    return f"{fit[: MAX_NAME_CHARS - MARK_CHARS - 1]}_{mark}"


def describe_disabled(server: str, tool: str) -> str:
    """The error text of a tool that is not as its owner approved it."""
    return (
        f"{make_tool_name(server, tool)} is switched off, and nothing was done: the MCP server"
        f" {server} describes it otherwise than its owner has approved. Tell the user: `/mcp`"
        " shows the change, and what to say to approve it."
    )


class ToolChanged(ToolError):
    """The tool is not as its owner approved it."""


def find_effect(config: McpConfig, tool: ServerTool) -> Effect:
    """What the owner's config says; else what the server says of a tool that changes nothing.

    It is a READ only where the server says that it reaches nothing and its sandbox has no network;
    else what it is asked leaves the machine.
    """
    if tool.name in config.effects or "default_effect" in config.model_fields_set:
        return config.effects.get(tool.name, config.default_effect)
    hints = json.loads(tool.annotations)
    if not isinstance(hints, dict) or hints.get("readOnlyHint") is not True:
        return config.default_effect
    alone = config.command and config.sandbox != "off" and not (config.network or config.domains)
    is_closed = bool(alone) and hints.get("openWorldHint") is False
    return Effect.READ if is_closed else Effect.FETCH


def may_repeat_tool(config: McpConfig, tool: ServerTool) -> bool:
    """It only reads; a fetch, where no word of the owner's is against it, if its server says that
    it changes nothing, also when it runs twice.
    """
    effect, hints = find_effect(config, tool), json.loads(tool.annotations)
    if effect is not Effect.FETCH or tool.name in config.effects or not isinstance(hints, dict):
        return effect is Effect.READ
    said = [hints.get(name) is True for name in ("readOnlyHint", "idempotentHint")]
    return all(said) and "default_effect" not in config.model_fields_set


def read_hints(tool: ServerTool) -> list[str]:
    """What it says of itself: nobody has checked it."""
    hints = json.loads(tool.annotations)
    table = hints if isinstance(hints, dict) else {}
    return [words for (key, said), words in HINTS.items() if table.get(key) is said]


@value
class Caller:
    """Whose call it is: a name of its own; a person's answer to what its server asked back, if it
    goes on with that; whether one may be asked.
    """

    key: str
    on_progress: OnProgress
    answered: ApprovalAnswered | None = None
    can_ask: bool = False


Call = Callable[[ServerTool, Arguments, Caller], Awaitable[ToolOutput]]
RESOURCES = ServerTool(
    "read_resource",
    "Read a text or file that this server offers, by its uri; without one, list them.",
    stable_json({"type": "object", "properties": {"uri": {"type": "string"}}}),
    stable_json({"readOnlyHint": True, "openWorldHint": False}),
)
"""Our own tool for what a server offers to read."""


@value
class McpTool:
    """A tool of a server. `call` raises NotSent, NoAnswer, UnreadableAnswer, ToolChanged;
    `is_disabled`: it only says why it cannot be called.
    """

    server: str
    config: McpConfig
    definition: ServerTool
    call: Call
    abandon: Callable[[str], None]
    is_disabled: bool = False

    def make(self, *, known: bool) -> Tool:
        """The tool; only a known one has its server's text. Raises UnfitTool."""
        name = self.definition.name
        effect = find_effect(self.config, self.definition)
        critical = self.config.critical.get(name)
        meta = ToolMeta(
            effect=effect,
            parallel=effect in READ_EFFECTS,
            retries=RETRIES if may_repeat_tool(self.config, self.definition) else 0,
            timeout_s=TIMEOUT_S,
            critical=None if critical is None else tuple(critical),
            volatile=True,
            max_chars=RESULT_CHARS,
            returns_outside_text=True,
            public=self.config.effects.get(name) is Effect.FETCH,
            source=f"mcp {self.server}",
            no_others=self.config.people == "owner",
            evidence="known",
        )
        definition = self.definition
        if not known:
            definition = ServerTool(name, "Switched off until its owner approves it.", "{}")
        spec = make_spec(self.server, definition)
        return Tool(spec, meta, self.run, self.check, abandon=self.abandon)

    def check(self, arguments: Arguments) -> None:
        """Raises ToolChanged."""
        if self.is_disabled:
            raise ToolChanged(describe_disabled(self.server, self.definition.name))

    async def run(self, arguments: Arguments, context: ToolContext) -> ToolOutput:
        """Call the server once."""
        config, own = self.config, self.definition.name
        name = make_tool_name(self.server, own)
        sent = {key: argument for key, argument in arguments.items() if not key.startswith("_")}

        def tell(words: str) -> None:
            context.on_output(f"{sanitize_line(words)}\n")

        try:
            state = context.turn.call(context.call_id)
            answered = state.answered if state.asked_back else None
            caller = Caller(context.key, tell, answered, context.can_ask)
            answer = await self.call(self.definition, sent, caller)
        except NotSent as error:
            text = f"{name} was not called, so nothing has happened: {error}"
            raise RetryableToolError(text) from error
        except UnreadableAnswer as error:
            raise ToolError(
                f"{name} was called, and its server's answer cannot be read: {error}. What was"
                " asked may have been done; it was not called again. Tell the user."
            ) from error
        except NoAnswer as error:
            if may_repeat_tool(config, self.definition):
                text = f"{name} gave no answer: {error}"
                raise RetryableToolError(text) from error
            raise ToolError(
                f"{name} was called and no answer came: it may or may not have happened."
                " It was not called again. Tell the user."
            ) from error
        if answer.question:
            return answer
        trusted = own in config.trusted_output and not answer.is_error
        label = Label.TRUSTED if trusted else Label.UNTRUSTED
        misfit = None if answer.is_error else await self._find_misfit(answer.records)
        records = answer.records if own in config.records and misfit == "" else ""
        text = sanitize(answer.text, RESULT_CHARS)
        if misfit:
            line = sanitize_line(f"[It does not fit the tool's own outputSchema: {misfit}]", 300)
            text = f"{text}\n{line}"
        failed = answer.is_error and SERVER_STATUS.search(text[:STATUS_CHARS])
        kind = ServiceUnavailable.__name__ if failed else answer.error_class
        return replace(answer, text=text, label=label, records=records, error_class=kind)

    async def _find_misfit(self, records: str) -> str | None:
        """What of the structured result is not as the server has declared it; "" for nothing, None
        where that cannot be told.
        """
        schema = self.definition.output_schema
        if not schema or len(records) > RESULT_CHARS:
            return None
        if not records:
            return "there is no structured result"
        from daemon.tools.mcp.misfit import find_misfit  # lazy: jsonschema, 60 ms

        return await find_misfit(schema, records)


def make_spec(server: str, tool: ServerTool) -> ToolSpec:
    """The definition that the model is shown. Raises UnfitTool."""
    if (length := len(tool.schema)) > SCHEMA_CHARS:
        raise UnfitTool(
            f"it describes its arguments in {length} characters; {SCHEMA_CHARS} are the most"
        )
    described = sanitize(tool.description[:DESCRIPTION_CHARS], DESCRIPTION_CHARS)
    name = make_tool_name(server, tool.name)
    return ToolSpec(name, described, sanitize_schema(json.loads(tool.schema)))
