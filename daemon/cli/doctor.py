"""aidaemon doctor."""

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict

from pydantic import BaseModel

from channels.email.config import EmailAccount
from daemon.agent.spec.registry import AgentRegistry
from daemon.app.config import (
    Config,
    find_muted_sections,
    list_accounts,
    load_config,
    make_redactor,
)
from daemon.app.runtime_config import build_choice
from daemon.core.clock import system_clock
from daemon.core.errors import ConfigError
from daemon.ops.doctor import ChannelAccount, DoctorInput, run_checks
from daemon.ops.model_checks import Finding
from daemon.ops.models import models_dir
from daemon.providers.chain import ModelRoute
from daemon.providers.config import ProviderConfig
from daemon.settings.load import find_lost_config
from daemon.settings.paths import Paths
from daemon.settings.secrets import SecretStore

COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


OPTIONS = {"--json": "the checks as a JSON list"}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it; 1 when a check fails."""
    checks = asyncio.run(_check(paths))
    if args.json:
        print(json.dumps([asdict(check) for check in checks], ensure_ascii=False))
    else:
        _show(checks)
    return int(any(check.state == "fail" for check in checks))


async def _check(paths: Paths) -> list[Finding]:
    async with AsyncExitStack() as stack:
        return await run_checks(_gather(paths, stack))


def _gather(paths: Paths, stack: AsyncExitStack) -> DoctorInput:
    """Fact-finding that cannot fail: a config that does not load is a finding."""
    config, fault = Config(), ""
    try:
        config = load_config(
            paths.config, env=os.environ, secrets=SecretStore(paths.secrets).read_values()
        ).config
        fault = find_lost_config(paths.config, paths.lastgood)
    except ConfigError as error:
        fault = str(error)
    return DoctorInput(
        home=paths.home,
        config=paths.config,
        config_error=fault,
        provider=None if fault else config.provider,
        routes=[] if fault else _list_routes(config.provider, stack),
        workspace=paths.home / config.tools.workspace,
        models=models_dir(),
        embedder=config.memory.embedder,
        transcriber=config.voice.transcriber,
        daemon_json=paths.daemon.read_text() if paths.daemon.is_file() else "",
        agents=AgentRegistry(paths.agents, config.agent),
        shell=config.tools.shell,
        servers=config.mcp,
        channels=[
            ChannelAccount(
                one.name,
                one.section,
                one.create_channel,
                len(one.config.allowed_user_ids),
                len(one.config.owner_ids),
                _count_senders(one.config),
            )
            for one in list_accounts(config)
        ],
        muted=find_muted_sections(config),
        redact=make_redactor(paths, config).redact_text,
    )


def _list_routes(provider: ProviderConfig, stack: AsyncExitStack) -> list[ModelRoute]:
    choice = build_choice(provider, system_clock(), stack)
    return [choice.primary, *choice.fallbacks]


def _count_senders(account: BaseModel) -> tuple[bool, int] | None:
    if not isinstance(account, EmailAccount):
        return None
    listed = len(account.allowed_senders) + len(account.trusted_senders)
    return bool(account.authserv_id), listed


def _show(checks: Sequence[Finding]) -> None:
    from rich.console import Console  # lazy: --json does without
    from rich.text import Text  # lazy: --json does without

    console = Console(highlight=False, soft_wrap=True)
    width = max(len(check.name) for check in checks) + 2
    for check in checks:
        state = Text(f"{check.state:<6}", style=COLOURS[check.state])
        console.print(state + Text(f"{check.name:<{width}}") + Text(check.found))
        if check.advice:
            console.print(Text(f"{'':<{6 + width}}-> {check.advice}", style="cyan"))
