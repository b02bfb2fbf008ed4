"""One command, from its layer to its merge."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from pydantic import TypeAdapter

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.errors import AidaemonError
from daemon.core.trust import Label
from daemon.tools.base import ToolContext
from daemon.tools.layers.layer import Layer
from daemon.tools.layers.merge import Merge
from daemon.tools.shell.network import NetworkProxy
from daemon.tools.shell.process import ProcessResult, Start
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.workspace.command_effects import CommandEffects, CommandOrigin, name_others

ORIGIN = TypeAdapter(CommandOrigin)
KEPT = "meanwhile"
NOT_MERGED = (
    "What it changed could not be brought into the workspace: {}. Nothing is lost: it is kept, and"
    " comes over when the daemon starts again."
)
LEFT_TRIES, LEFT_PAUSE_S = 100, 0.05
# What a program prints where it does what an overlay cannot do, and what does it.
OVERLAY_LIMITS = {
    os.strerror(errno.EXDEV): "a folder that was there before moves with mv only",
    os.strerror(errno.EOVERFLOW): "what belongs to another user of this machine is read-only here",
    "hardlink different from source": "cloning a local path needs git clone --no-hardlinks",
}
# Whatever a command leaves, the conversation goes on, and so does the daemon's start.
FAILURES = (AidaemonError, OSError, ValueError, RuntimeError)


@value
class Given:
    """A command as it is to run. One that only `reads` needs no layer."""

    words: Sequence[str]
    network: bool = False
    domains: Sequence[str] = ()
    hidden: Sequence[Path] = ()
    reads: bool = False


@value
class CommandRun:
    """What is open while one command runs."""

    sandbox: Sandbox
    given: Given
    context: ToolContext
    label: Label
    effects: CommandEffects | None
    origin: CommandOrigin | None
    layer: Layer | None
    proxy: NetworkProxy

    @property
    def argv(self) -> list[str]:
        """Its line in the sandbox."""
        given = self.given
        return self.sandbox.wrap(
            given.words, given.network, given.hidden, self.layer, self.proxy, reads=given.reads
        )

    @property
    def cwd(self) -> Path:
        """Where its line starts."""
        return self.sandbox.find_cwd(self.layer)

    @property
    def env(self) -> dict[str, str]:
        """What its line starts with."""
        return self.sandbox.find_env(self.layer)

    @property
    def start(self) -> Start:
        """Its last moment before: the content that was allowed is looked at once more."""
        lock = (self.layer.lock,) if self.layer else ()
        return Start(self.context.check_content, (*self.proxy.fds, *lock))

    @property
    def holds(self) -> tuple[str, ...]:
        """The private sources that what it prints may hold."""
        return self.origin.holds if self.origin else ()

    def explain(self, ran: ProcessResult) -> str:
        """What the model may not know of the layer, where it made a command fail."""
        if ran.exit_code == 0 or self.layer is None or self.layer.kind != "overlay":
            return ""
        found = (hint for text, hint in OVERLAY_LIMITS.items() if text in ran.output)
        return "\n".join(f"(the workspace is an overlay: {hint})" for hint in found)

    async def finish(self) -> tuple[Label, str]:
        """It has ended: what it changed comes over. The label of what it printed, and in words what
        did not come over.
        """
        return await run_to_completion(self._finish())

    async def _finish(self) -> tuple[Label, str]:
        label, layer = self.label, self.layer
        if layer is None:
            return await self.judge(), ""
        try:
            label, said = await merge(layer, self.sandbox, self.effects, self.origin, label)
        except FAILURES as error:
            why = getattr(error, "strerror", None) or error
            return Label.UNTRUSTED, NOT_MERGED.format(why)
        if layer.kind == "read-only" and self.sandbox.layers:
            why = await asyncio.to_thread(self.sandbox.layers.describe)
            said = "\n".join(filter(None, (said, why)))
        return label, said

    async def judge(self) -> Label:
        """The label of what it has printed so far."""
        if self.effects is None or self.origin is None:
            return self.label
        try:
            return await self.effects.judge_output(self.origin)
        except AidaemonError:
            return Label.UNTRUSTED


@asynccontextmanager
async def open_run(
    sandbox: Sandbox,
    given: Given,
    context: ToolContext,
    label: Label,
    effects: CommandEffects | None,
    maker: str,
) -> AsyncIterator[CommandRun]:
    """Raises ToolError where it cannot run."""
    layers, name = sandbox.layers, token_hex(6)
    needs_copy = sandbox.kind == "none"
    opened = None
    if layers and not given.reads:
        held = effects.held.find(name_others(context)) if effects else None
        opened = layers.open(name, held, needs_copy=needs_copy)
    proxied = sandbox.open_proxy(given.domains, context.check_address)
    async with proxied as proxy, opened or nullcontext() as layer:
        origin = await effects.start(context, label, maker) if effects else None
        if layer:
            known = origin or CommandOrigin("", "", "", trusted=False, clean=False)
            await asyncio.to_thread(layer.note.write_bytes, ORIGIN.dump_json(known))
            sockets = await effects.find_sockets() if effects else []
            given = replace(given, hidden=(*given.hidden, *sockets))
        yield CommandRun(sandbox, given, context, label, effects, origin, layer, proxy)


async def merge(
    layer: Layer,
    sandbox: Sandbox,
    effects: CommandEffects | None,
    origin: CommandOrigin | None,
    label: Label,
    own: dict[str, int] | None = None,
) -> tuple[Label, str]:
    """Of a layer whose command has ended, or of one that goes on, with what came over before.
    Raises OSError, StoreUnavailable.
    """
    aside = layer.held.parent / f"{KEPT}-{layer.place.name}"
    found = await asyncio.to_thread(Merge.read, layer, aside, own)
    if effects and origin:
        changed = await asyncio.to_thread(lambda: [*found.list_files()])
        label, said = await effects.merge(origin, changed, found.apply)
    else:
        said = await asyncio.to_thread(found.apply)
    if own is None:
        await asyncio.to_thread(layer.note.unlink)
    return label, said


async def merge_left(sandbox: Sandbox, effects: CommandEffects) -> list[str]:
    """What commands of an earlier daemon changed, which was killed; in words what did not come
    over. One that is still alive is waited for.
    """
    layers = sandbox.layers
    if layers is None:
        return []
    await asyncio.to_thread(layers.take_lent)
    await asyncio.to_thread(layers.remove_unused)
    left = await asyncio.to_thread(layers.list_left)
    origins = [await asyncio.to_thread(read_note, one) for one in left]
    clean = all(origin.clean for origin in origins)
    said = list[str]()
    for layer, origin in zip(left, origins, strict=True):
        await layer.wait_for_end(LEFT_TRIES, LEFT_PAUSE_S)
        count = effects.files.labels.strange_count
        own = replace(origin, clean=clean, strange_count=count)
        try:
            _, words = await merge(layer, sandbox, effects, own, Label.UNTRUSTED)
            await asyncio.to_thread(layer.drop)
        except FAILURES as error:
            words = NOT_MERGED.format(getattr(error, "strerror", None) or error)
        said += [words] * bool(words)
    return said


def read_note(layer: Layer) -> CommandOrigin:
    """What a layer is from; a stranger's where a kill or a full disk cut the note."""
    try:
        return ORIGIN.validate_json(layer.note.read_bytes())
    except ValueError:
        return CommandOrigin("", "", "", trusted=False, clean=False)
