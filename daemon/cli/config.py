"""aidaemon config check|get|path."""

import argparse
import json
import os
import sys
import tomllib
from collections.abc import Mapping
from typing import assert_never

import tomli_w

from daemon.agent.config import AgentConfig
from daemon.agent.specs.registry import Specs
from daemon.config.load import Loaded, load
from daemon.config.model import Config
from daemon.config.paths import Paths, resolve
from daemon.config.secrets import Secrets
from daemon.core.errors import ConfigError, UsageError
from daemon.core.faults import is_hidden
from daemon.core.keys import descend, nearest

HELP = "check the config file and the agents, show a value of it, or say where it is"
MASK = "***"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """check | get KEY | path."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|get|path")
    actions.add_parser("check", help="tell everything that is wrong with it; exit code 2 if anything is")
    get = actions.add_parser("get", help="print the value in force; secrets are shown as ***")
    get.add_argument("key", metavar="KEY", help="for example agent.max_iterations, or a whole section: agent")
    actions.add_parser("path", help="print where the file is looked for")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    paths = resolve(args.home, args.config)
    match args.action:
        case "path":
            print(paths.config)
        case "check":
            _check(paths)
        case "get":
            print(_value(_load(paths), args.key))
        case never:
            assert_never(never)
    return 0


def _check(paths: Paths) -> None:
    """The config and every agent, all faults at once."""
    faults, settings = [], AgentConfig()
    try:
        settings = _load(paths).config.agent
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


def _load(paths: Paths) -> Loaded:
    return load(paths.config, env=os.environ, secrets=Secrets(paths.secrets).read())


def _value(loaded: Loaded, key: str) -> str:
    value: object = loaded.config.model_dump(mode="json")
    raw: object = tomllib.loads(loaded.text)
    for part in key.split("."):
        value, raw = descend(value, part), descend(raw, part)
        if value is None:
            near = nearest(Config, key)
            raise UsageError(f"{loaded.path}: there is no key {key!r}" + (f"; did you mean {near}?" if near else ""))
    return _printed(_masked(value, raw, key))


def _masked(value: object, raw: object, key: str) -> object:
    if isinstance(value, Mapping):
        return {name: _masked(inner, descend(raw, name), f"{key}.{name}") for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_masked(inner, descend(raw, str(index)), f"{key}.{index}") for index, inner in enumerate(value)]
    from_store = isinstance(raw, str) and raw.startswith("secret:")
    return MASK if value and (from_store or is_hidden(key)) else value


def _printed(value: object) -> str:
    if isinstance(value, Mapping):
        return tomli_w.dumps(value).rstrip()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
