"""aidaemon config check|get|set|path|restore."""

import argparse
import os
import sys
from typing import assert_never

from daemon.agent.config import AgentConfig
from daemon.agent.specs.registry import Specs
from daemon.config.edit import BACKUPS, Change, Editor
from daemon.config.load import Loaded, load
from daemon.config.paths import Paths, resolve
from daemon.config.secrets import Secrets
from daemon.config.shown import value_of
from daemon.config.workspace import workspace_of
from daemon.core.errors import ConfigError
from daemon.store.lock import held

HELP = "check the config file and the agents, show or change a value of it, say where it is, bring an older one back"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """check | get KEY | set KEY VALUE | path | restore [N]."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|get|set|path|restore")
    actions.add_parser("check", help="tell everything that is wrong with it; exit code 2 if anything is")
    get = actions.add_parser("get", help="print the value in force; secrets are shown as ***")
    get.add_argument("key", metavar="KEY", help="for example agent.max_iterations, or a whole section: agent")
    put = actions.add_parser("set", help="change one value; the file is checked first, its old text is kept as config.toml.bak")
    put.add_argument("key", metavar="KEY", help='for example agent.max_iterations, or provider.prices."my-model".input')
    put.add_argument("value", metavar="VALUE", help="a number, true, false, a list as in TOML, or text without quotes")
    actions.add_parser("path", help="print where the file is looked for")
    restore = actions.add_parser("restore", help="bring back what the file was before the last change; the change is kept")
    restore.add_argument("number", metavar="N", nargs="?", type=int, choices=range(len(BACKUPS)), default=0,
                         help="0: the newest backup (config.toml.bak), 1: the one before, 2: the oldest")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Do it."""
    paths = resolve(args.home, args.config)
    match args.action:
        case "path":
            print(paths.config)
        case "check":
            _check(paths)
        case "get":
            print(value_of(_load(paths), args.key))
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
        workspace_of(paths, config.tools.workspace)
    except ConfigError as error:
        faults.append(str(error))
    agents = Specs(paths.agents, settings)
    faults += agents.faults()
    if faults:
        raise ConfigError("\n".join(faults))
    print(f"{paths.config}: ok" if paths.config.exists() else f"{paths.config}: ok (no such file: the defaults hold)")
    for name in agents.files():
        print(f"{agents.folder / name}.toml: ok")
    for warning in agents.warnings():
        print(warning, file=sys.stderr)


def _set(paths: Paths, key: str, value: str) -> None:
    editor = _editor(paths)
    change = editor.plan(key, value)
    editor.write(change)
    _tell(paths, change)
    for exposed in change.exposes:
        print(f'{exposed}: a secret stands in the file itself; better: aidaemon secret set NAME, and "secret:NAME" here',
              file=sys.stderr)  # fmt: skip


def _tell(paths: Paths, change: Change) -> None:
    print(change.diff or f"{paths.config}: it is so already; nothing was changed")
    if change.diff and held(paths.home):
        print("A daemon runs here: say /reload to it, or start it again.", file=sys.stderr)


def _editor(paths: Paths) -> Editor:
    return Editor(paths.config, os.environ, Secrets(paths.secrets).read())


def _load(paths: Paths) -> Loaded:
    return load(paths.config, env=os.environ, secrets=Secrets(paths.secrets).read())
