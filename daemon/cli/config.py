"""aidaemon config check|get|set|path|restore."""

import argparse
import os
import sys

from daemon.agent.config import AgentConfig
from daemon.agent.spec.registry import AgentRegistry
from daemon.app.config import Loaded, load_config, make_parser
from daemon.app.tool_names import list_tool_names
from daemon.app.tools import resolve_workspace
from daemon.cli.parsing import Actions
from daemon.core.errors import ConfigError
from daemon.settings.edit import BACKUPS, ConfigChange, ConfigEditor, render_value
from daemon.settings.load import find_lost_config
from daemon.settings.paths import Paths
from daemon.settings.secrets import SecretStore
from daemon.store.lock import is_locked

NUMBER = {
    "help": "0: the newest backup (config.toml.bak), 1: the one before, 2: the oldest",
    "type": int,
    "choices": range(len(BACKUPS)),
    "default": 0,
}
ACTIONS: Actions = {
    "check": ("tell everything that is wrong with it; exit code 2 if anything is", {}),
    "get": (
        "print the value in force; secrets are shown as ***",
        {"KEY": "for example agent.max_iterations, or a whole section: agent"},
    ),
    "set": (
        "change one value; the file is checked first, its old text is kept as config.toml.bak",
        {
            "KEY": 'for example agent.max_iterations, or provider.prices."my-model".input',
            "VALUE": "a number, true, false, a list as in TOML, or text without quotes",
        },
    ),
    "path": ("print where the file is looked for", {}),
    "restore": (
        "bring back what the file was before the last change; the change is kept",
        {"[N]": NUMBER},
    ),
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it."""
    match args.action:
        case "path":
            print(paths.config)
        case "check":
            _check(paths)
        case "get":
            print(render_value(_load(paths), args.key))
        case "set":
            _set(paths, args.key, args.value)
        case _:
            _tell(paths, _editor(paths).restore(args.n))
    return 0


def _check(paths: Paths) -> None:
    """The config and every agent, all faults at once."""
    faults, settings, names = [], AgentConfig(), list[str]()
    try:
        config = _load(paths).config
        settings = config.agent
        resolve_workspace(paths, config.tools.workspace)
        names = list_tool_names(config, paths)
        if lost := find_lost_config(paths.config, paths.lastgood):
            faults.append(lost)
    except ConfigError as error:
        faults.append(str(error))
    agents = AgentRegistry(paths.agents, settings)
    faults += agents.errors()
    if faults:
        raise ConfigError("\n".join(faults))
    missing = "" if paths.config.exists() else " (no such file: the defaults hold)"
    print(f"{paths.config}: ok{missing}")
    for name in agents.files():
        print(f"{agents.folder / name}.toml: ok")
    agents.list_tools = lambda: names
    for warning in agents.warnings():
        print(warning, file=sys.stderr)


def _set(paths: Paths, key: str, value: str) -> None:
    editor = _editor(paths)
    change = editor.plan(key, value)
    editor.write(change)
    _tell(paths, change)
    for exposed in change.exposed_keys:
        better = 'better: aidaemon secret set NAME, and "secret:NAME" here'
        print(f"{exposed}: a secret stands in the file itself; {better}", file=sys.stderr)


def _tell(paths: Paths, change: ConfigChange) -> None:
    print(change.diff or f"{paths.config}: it is so already; nothing was changed")
    if change.diff and is_locked(paths.home):
        print("A daemon runs here: say /reload to it, or start it again.", file=sys.stderr)


def _editor(paths: Paths) -> ConfigEditor:
    return ConfigEditor(paths.config, make_parser(paths))


def _load(paths: Paths) -> Loaded:
    secrets = SecretStore(paths.secrets).read_values()
    return load_config(paths.config, env=os.environ, secrets=secrets)
