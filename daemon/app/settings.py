"""Which parts of the house take on a new config while it runs, and how (A20): each from its next turn on."""

import os

from daemon.agent.crew.children import Children
from daemon.agent.money.ledger import Ledger
from daemon.agent.specs.registry import Specs
from daemon.config.live import LiveConfig
from daemon.config.load import Loaded
from daemon.config.model import Config
from daemon.config.paths import Paths


def live_config(paths: Paths, loaded: Loaded, specs: Specs, children: Children, ledger: Ledger) -> LiveConfig:
    """The config, handed to agents, budgets and sub-agents anew at every reload; all else waits for a restart."""

    def agents(config: Config) -> None:
        specs.take(config.agent)
        children.defaults = config.agent

    def budgets(config: Config) -> None:
        ledger.take(config.budget)

    def below(config: Config) -> None:
        children.config = config.subagents

    return LiveConfig(paths, loaded, os.environ, {"agent": agents, "budget": budgets, "subagents": below})
