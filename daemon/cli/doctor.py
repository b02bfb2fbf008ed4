"""aidaemon doctor."""

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from daemon.config.paths import Paths, resolve
from daemon.core.errors import ConfigError

if TYPE_CHECKING:
    from daemon.config.model import Config
    from daemon.ops.checked import Check
    from daemon.ops.doctor import Patient
    from daemon.ops.doctor_channels import Line

HELP = "look at everything that has to be in order, and say what to do"
COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[--json]."""
    parser.add_argument("--json", action="store_true", help="the checks as a JSON list")


def run(args: argparse.Namespace) -> int:
    """Do it; 1 when a check fails."""
    from daemon.ops.doctor import examine

    checks = asyncio.run(examine(_patient(resolve(args.home, args.config))))
    if args.json:
        print(json.dumps([asdict(check) for check in checks], ensure_ascii=False))
    else:
        _show(checks)
    return int(any(check.state == "fail" for check in checks))


def _patient(paths: Paths) -> "Patient":
    """Fact-finding that cannot fail: a config that does not load is a finding."""
    from daemon.agent.specs.registry import Specs
    from daemon.app.accounts import muted
    from daemon.config.load import load
    from daemon.config.model import Config
    from daemon.config.secrets import Secrets
    from daemon.ops.doctor import Patient
    from daemon.ops.models import models_dir

    config, fault = Config(), ""
    try:
        config = load(paths.config, env=os.environ, secrets=Secrets(paths.secrets).read()).config
    except ConfigError as error:
        fault = str(error)
    return Patient(
        home=paths.home,
        config=paths.config,
        config_fault=fault,
        provider=None if fault else config.provider,
        workspace=paths.home / config.tools.workspace,
        models=models_dir(),
        daemon_json=paths.daemon.read_text() if paths.daemon.is_file() else "",
        agents=Specs(paths.agents, config.agent),
        servers=config.mcp,
        channels=_channels(config),
        muted=muted(config),
    )


def _channels(config: "Config") -> "list[Line]":
    from daemon.app.accounts import configured
    from daemon.ops.doctor_channels import Line

    return [
        Line(one.name, one.section, one.open, len(one.account.allowed_user_ids), len(one.account.owner_ids))
        for one in configured(config)
    ]


def _show(checks: "Sequence[Check]") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    width = max(len(check.name) for check in checks) + 2
    for check in checks:
        state = Text(f"{check.state:<6}", style=COLOURS[check.state])
        console.print(state + Text(f"{check.name:<{width}}") + Text(check.found))
        if check.advice:
            console.print(Text(f"{'':<{6 + width}}-> {check.advice}", style="cyan"))
