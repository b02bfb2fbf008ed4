"""aidaemon mcp."""

import argparse
import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from daemon.cli.parsing import TERMINAL, Actions
from daemon.client.http import find_running_daemon
from daemon.core.errors import AidaemonError, ConfigError, UsageError
from daemon.settings.paths import Paths
from daemon.settings.secrets import SECRET_NAME

if TYPE_CHECKING:
    from daemon.app.config import Config, Loaded
    from daemon.ops.server_trial import Trial
    from daemon.tools.mcp.config import McpConfig
    from daemon.tools.shell.sandbox import Sandbox

CODE = re.compile(r"/mcp approve (\S+) ([0-9a-f]{8})")
SERVER = "the server, as it stands in the config: [mcp.NAME]"
TAKES_COMMAND = ("add",)
ACTIONS: Actions = {
    "list": ("every server, its tools, and why one is not there", {}),
    "add": (
        "install a server as its README says, try it, and write its section",
        {
            "NAME": "how it is to be called; it stands before the names of its tools",
            "[COMMAND]": {
                "nargs": "*",
                "help": "after --: npx -y PACKAGE ARGS, uvx PACKAGE ARGS, python -m MODULE, or a"
                " program that is there",
            },
            "--url URL": {"default": "", "help": "instead of a command: where it listens"},
            "--env NAME=VALUE": {"action": "append", "default": [], "help": "a variable for it"},
            "--domain HOST": {
                "action": "append",
                "default": [],
                "help": "a host that it may reach; default: no network",
            },
            "--network": "it may reach any host",
            "--yes": "do not ask about the folders among its arguments",
        },
    ),
    "test": (
        "start it as the daemon does, and show its tools with their effects",
        {"NAME": SERVER},
    ),
    "remove": ("take it out of the config, with what was installed for it", {"NAME": SERVER}),
    "approve": (
        "show what a server has changed, and take it as it is after a yes",
        {
            "NAME": SERVER,
            "[TOOL]": {"default": "", "help": "this tool only"},
            "--yes": "do not ask after showing it",
        },
    ),
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it; 1 when it was not approved, or does not work."""
    actions = {"add": _add, "test": _test, "remove": _remove}
    return asyncio.run(actions.get(args.action, _run)(args, paths))


async def _run(args: argparse.Namespace, paths: Paths) -> int:
    async with _open_commands(paths) as say:
        return await _run_verb(args, say)


@asynccontextmanager
async def _open_commands(paths: Paths) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """What answers /mcp: a running daemon; else its journal is read, and no server is started."""
    if client := find_running_daemon(paths):

        async def send(text: str) -> str:
            return (await client.send(TERMINAL, text, stream=False)).reply

        yield send
        return
    from daemon.app.config import load_or_last_good  # lazy: brings the whole daemon
    from daemon.services.admin import answer_mcp  # lazy: with it
    from daemon.store.lock import lock_home  # lazy: with it
    from daemon.store.sqlite import SqliteStore  # lazy: with it
    from daemon.tools.mcp.pins import PinStore  # lazy: with it

    names = tuple(load_or_last_good(paths).config.mcp)
    with lock_home(paths.home):
        async with aclosing(await SqliteStore.open(paths.journal)) as store:
            pins = PinStore(store)
            yield lambda text: answer_mcp(text.removeprefix("/mcp "), pins, names)


async def _run_verb(args: argparse.Namespace, say: Callable[[str], Awaitable[str]]) -> int:
    if args.action == "list":
        print(await say("/mcp list"))
        return 0
    shown = await say(f"/mcp whole {args.name} {args.tool}".rstrip())
    text, _, last = shown.rpartition("\n")  # before that a server may have written what it likes
    code = CODE.search(last)
    if code is None:
        raise UsageError(shown)
    print(text)
    if not args.yes and not _confirm("Approve this?"):
        print("Nothing was approved.", file=sys.stderr)
        return 1
    done = await say(f"/mcp approve {args.name} {code[2]} {args.tool}".rstrip())
    if not done.startswith("Approved"):
        raise AidaemonError(
            "Nothing was approved: what waits by now is something else."
            " Look again: aidaemon mcp list"
        )
    print(done)
    return 0


def _confirm(question: str) -> bool:
    if not sys.stdin.isatty():
        print("aidaemon: not a terminal: say yes with --yes", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


async def _add(args: argparse.Namespace, paths: Paths) -> int:
    """Nothing is written for a server that does not work."""
    from daemon.app.config import load_home_config  # lazy: brings the whole daemon
    from daemon.tools.mcp.config import NAME  # lazy: with it
    from daemon.tools.mcp.packages import install, parse_command, remove_others  # lazy: with it

    loaded = load_home_config(paths)
    if not NAME.fullmatch(args.name):
        raise UsageError(f"{args.name!r} cannot be the name of a server: letters, digits, '-', '_'")
    if args.name in loaded.config.mcp:
        raise UsageError(
            f"there is [mcp.{args.name}] already: edit it in {paths.config}, or first"
            f" `aidaemon mcp remove {args.name}`"
        )
    if bool(args.url) == bool(args.command):
        raise UsageError("expected either a command after --, or --url URL")
    place, env = paths.packages / args.name, dict(map(_split_variable, args.env))
    settings: dict[str, object] = {"url": args.url} if args.url else {}
    sandbox = await _open_sandbox(paths, loaded)
    if args.command:
        command = parse_command(args.command)
        found = _choose_paths(command.args, paths.home, ask=not args.yes)
        if command.package:
            print(f"installing {command.package} ...", file=sys.stderr)
        words = await install(command, place, sandbox)
        settings = {"command": words[0], "args": list(words[1:])}
        settings |= {"paths": found} if found else {}
    settings |= {"env": env} if env else {}
    settings |= {"network": True} if args.network else {}
    settings |= {"domains": args.domain} if args.domain else {}
    try:
        return await _keep(args.name, settings, paths, sandbox)
    finally:
        kept = load_home_config(paths).config.mcp.get(args.name)
        now = (kept.command, *kept.args) if kept else ()
        await asyncio.to_thread(remove_others, now, place)


async def _keep(name: str, settings: dict[str, object], paths: Paths, sandbox: "Sandbox") -> int:
    from daemon.app.config import make_parser  # lazy: brings the whole daemon
    from daemon.settings.edit import ConfigEditor  # lazy: tomlkit, 20 ms

    editor = ConfigEditor(paths.config, make_parser(paths))
    plan = editor.plan(f"mcp.{name}", settings)
    changed = cast("Config", plan.loaded.config)
    config = changed.mcp[name]
    trial = await _try(name, config, changed, paths, sandbox)
    if not _show(name, config, trial):
        print("Nothing was written to the config.", file=sys.stderr)
        return 1
    editor.write(plan)
    print(f"[mcp.{name}] is written to {paths.config}; the effects above hold unless it says else.")
    await _apply(paths)
    return 0


async def _test(args: argparse.Namespace, paths: Paths) -> int:
    from daemon.app.config import load_home_config  # lazy: brings the whole daemon
    from daemon.ops.server_checks import find_change  # lazy: with it

    loaded = load_home_config(paths)
    config = _find(args.name, loaded)
    sandbox = await _open_sandbox(paths, loaded)
    if changed := await asyncio.to_thread(find_change, args.name, config, paths.journal):
        raise AidaemonError(changed)
    trial = await _try(args.name, config, loaded.config, paths, sandbox)
    return 0 if _show(args.name, config, trial) else 1


async def _remove(args: argparse.Namespace, paths: Paths) -> int:
    """Its folder in HOME/mcp stays: what it keeps there may be the owner's."""
    from daemon.app.config import load_home_config, make_parser  # lazy: brings the whole daemon
    from daemon.settings.edit import ConfigEditor  # lazy: tomlkit, 20 ms

    _find(args.name, load_home_config(paths))
    editor = ConfigEditor(paths.config, make_parser(paths))
    editor.write(editor.plan(f"mcp.{args.name}", None))
    await _apply(paths)
    await asyncio.to_thread(shutil.rmtree, paths.packages / args.name, ignore_errors=True)
    print(f"[mcp.{args.name}] is taken out of {paths.config}.")
    if (data := paths.home / "mcp" / args.name).is_dir() and any(data.iterdir()):
        print(f"What it kept stays in {data}.")
    async with _open_commands(paths) as say:  # another of that name is met anew
        await say(f"/mcp forget {args.name}")
    return 0


def _find(name: str, loaded: "Loaded") -> "McpConfig":
    if found := loaded.config.mcp.get(name):
        return found
    names = ", ".join(loaded.config.mcp) or "none"
    raise UsageError(f"there is no MCP server {name}; configured: {names}")


def _choose_paths(words: Sequence[str], home: Path, *, ask: bool) -> list[str]:
    """Files and folders among its arguments that it may read and write, after a yes."""
    named = {word.partition("=")[2] or word for word in words}
    places = [Path(word).expanduser() for word in sorted(named) if word and word[0] in "/~."]
    found = [str(place.resolve()) for place in places if place.exists()]
    if wide := [place for place in found if home.resolve().is_relative_to(place)]:
        raise UsageError(f"{wide[0]} holds all that the daemon keeps ({home}): name what it needs")
    if found and ask and not _confirm(f"May it read and write {', '.join(found)}?"):
        raise UsageError("nothing was added: without them, leave them out of its arguments")
    return found


def _split_variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise UsageError(f"--env: found {text!r}, expected NAME=VALUE")
    if SECRET_NAME.search(name) and not value.startswith("secret:"):
        raise UsageError(
            f"--env {name}: others on this machine see a command line. Keep the value first,"
            f" `aidaemon secret set {name}`, then: --env {name}=secret:{name}"
        )
    return name, value


async def _open_sandbox(paths: Paths, loaded: "Loaded") -> "Sandbox":
    from daemon.app.tools import resolve_workspace  # lazy: brings the whole daemon
    from daemon.tools.shell.sandbox import Sandbox  # lazy: with it
    from daemon.tools.web.guard import AddressGuard  # lazy: with it

    config = loaded.config.tools
    place = resolve_workspace(paths, config.workspace)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    layers = paths.home / (config.shell.layers or "layers")
    guard = AddressGuard(config.http.allow)
    sandbox = await Sandbox.open(place, paths.home / "quarantine", layers, guard)
    if sandbox.kind == "none" or sandbox.refusal:
        why = sandbox.refusal or "this machine has no sandbox: install bubblewrap"
        raise ConfigError(f"servers of others run in a sandbox only: {why}")
    return sandbox


async def _try(
    name: str, config: "McpConfig", whole: "Config", paths: Paths, sandbox: "Sandbox"
) -> "Trial":
    from daemon.app.config import make_redactor  # lazy: brings the whole daemon
    from daemon.ops.server_trial import try_server  # lazy: with it
    from daemon.tools.mcp.servers import load_client  # lazy: the package mcp, 0.8 s

    redact = make_redactor(paths, whole).redact_text
    print(f"starting {name} ...", file=sys.stderr)
    folder = paths.home / "mcp" / name
    return await try_server(name, config, sandbox, folder, load_client(), redact)


def _show(name: str, config: "McpConfig", trial: "Trial") -> bool:
    from daemon.ops.server_trial import render_tools  # lazy: brings the whole daemon

    if trial.problem:
        print(f"aidaemon: {name} does not work: {trial.problem}", file=sys.stderr)
        return False
    count = len(trial.tools)
    print(f"{name} works, with {count} tool{'s' * (count != 1)}:")
    print("\n".join((*render_tools(name, config, trial.tools), *trial.left_out)))
    return True


async def _apply(paths: Paths) -> None:
    """A running daemon takes it up at once."""
    if client := find_running_daemon(paths):
        print((await client.send(TERMINAL, "/reload", stream=False)).reply)
