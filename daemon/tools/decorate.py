"""A new tool is one decorated function; `bind` gives it the parts it needs."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import getdoc

from daemon.core.label import Effect
from daemon.core.messages import ToolSpec
from daemon.tools.base import Check, IsSafe, Preview, Run, Tool, ToolContext, ToolMeta, ToolOutput, never_safe, no_preview
from daemon.tools.signature import Signature, read_signature

Function = Callable[..., Awaitable[str | ToolOutput]]


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as it was written, before it has its parts."""

    function: Function = field(repr=False)
    meta: ToolMeta
    is_safe: IsSafe = field(default=never_safe, repr=False)
    preview: Preview = field(default=no_preview, repr=False)

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return getattr(self.function, "__name__", "")

    @property
    def description(self) -> str:
        """The first paragraph of the docstring: what the model is told."""
        paragraph = (getdoc(self.function) or "").partition("\n\n")[0]
        return " ".join(paragraph.split())


def tool(
    *,
    effect: Effect,
    parallel: bool = False,
    idempotent: bool = False,
    retries: int = 0,
    timeout_s: float = 60,
    critical: tuple[str, ...] | None = None,
    paths: tuple[str, ...] = (),
    volatile: bool = False,
    max_chars: int = 0,
    outside: bool = False,
) -> Callable[[Function], Definition]:
    """Make an async function a tool: plain parameters are the model's, ToolContext and `_...` the house's, the rest are parts."""
    meta = ToolMeta(
        effect, parallel, idempotent, retries, timeout_s, critical, paths,
        volatile=volatile, max_chars=max_chars, outside=outside,
    )  # fmt: skip
    return lambda function: Definition(function, meta)


def bind(definitions: Iterable[Definition], parts: Mapping[type, object]) -> list[Tool]:
    """The tools, ready to run. Raises TypeError for a definition that cannot be one, LookupError for a part that is missing."""
    return [_bound(definition, parts) for definition in definitions]


def _bound(definition: Definition, parts: Mapping[type, object]) -> Tool:
    if not definition.description:
        raise TypeError(f"tool {definition.name}: it needs a docstring, which the model is told")
    wants = read_signature(definition.name, definition.function)
    given = {name: _part(definition.name, kind, parts) for name, kind in wants.parts.items()}
    spec = ToolSpec(definition.name, definition.description, wants.schema())
    run, check = _runner(definition.function, wants, given), _checker(wants)
    return Tool(spec, definition.meta, run, check, definition.is_safe, definition.preview)


def _part(tool: str, kind: type, parts: Mapping[type, object]) -> object:
    if kind not in parts:
        raise LookupError(f"tool {tool} needs a {kind.__name__}, and none was given")
    return parts[kind]


def _runner(function: Function, wants: Signature, given: Mapping[str, object]) -> Run:
    async def run(arguments: Mapping[str, object], context: ToolContext) -> ToolOutput:
        read = wants.check(arguments)
        hidden = {"_session_id": context.session_id, "_untrusted_source": context.untrusted_source}
        house = dict.fromkeys(wants.context, context) | {name: hidden[name] for name in wants.hidden}
        output = await function(**read, **given, **house)
        return output if isinstance(output, ToolOutput) else ToolOutput(output)

    return run


def _checker(wants: Signature) -> Check:
    def check(arguments: Mapping[str, object]) -> None:
        wants.check(arguments)

    return check
