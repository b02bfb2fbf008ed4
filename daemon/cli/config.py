"""aidaemon config check|get|set|path|restore."""

import argparse
import os
import sys
from typing import assert_never

from daemon.agent.config import AgentConfig
from daemon.agent.spec.registry import AgentRegistry
from daemon.app.config import Loaded, load_config, make_parser
from daemon.app.tools import resolve_workspace
from daemon.core.errors import ConfigError
from daemon.settings.edit import BACKUPS, ConfigChange, ConfigEditor
from daemon.settings.masking import render_value
from daemon.settings.paths import Paths, resolve_paths
from daemon.settings.secrets import SecretStore
from daemon.store.lock import is_locked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """check | get KEY | set KEY VALUE | path | restore [N]."""
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="check|get|set|path|restore"
    )
    actions.add_parser(
        "check", help="tell everything that is wrong with it; exit code 2 if anything is"
    )
    get = actions.add_parser("get", help="print the value in force; secrets are shown as ***")
    get.add_argument(
        "key", metavar="KEY", help="for example agent.max_iterations, or a whole section: agent"
    )
    put = actions.add_parser(
        "set",
        help="change one value; the file is checked first, its old text is kept as config.toml.bak",
    )
    put.add_argument(
        "key",
        metavar="KEY",
        help='for example agent.max_iterations, or provider.prices."my-model".input',
    )
    put.add_argument(
        "value",
        metavar="VALUE",
        help="a number, true, false, a list as in TOML, or text without quotes",
    )
    actions.add_parser("path", help="print where the file is looked for")
    restore = actions.add_parser(
        "restore", help="bring back what the file was before the last change; the change is kept"
    )
    which = "0: the newest backup (config.toml.bak), 1: the one before, 2: the oldest"
    numbers = range(len(BACKUPS))
    restore.add_argument(
        "number", metavar="N", nargs="?", type=int, choices=numbers, default=0, help=which
    )


def run(args: argparse.Namespace) -> int:
    """Do it."""
    paths = resolve_paths(args.home, args.config)
    match args.action:
        case "path":
            print(paths.config)
        case "check":
            _check(paths)
        case "get":
            print(render_value(_load(paths), args.key))
        case "set":
            _set(paths, args.key, args.value)
        case "restore":
            _tell(paths, _editor(paths).restore(args.number))
        case never:
            assert_never(never)
    return 0


def _check(paths: Paths) -> None:
    """The config and every agent, all faults at once."""
    faults, settings = [], AgentConfig()
    try:
        config = _load(paths).config
        settings = config.agent
        resolve_workspace(paths, config.tools.workspace)
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
