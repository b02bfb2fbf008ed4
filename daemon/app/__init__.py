"""Composition root: builds a daemon from a config and a HOME, or connects to a running one. `serve` adds what listens."""

from daemon.app.connect import (
    DaemonConnection,
    connect,
    load_or_last_good,
    open_reader,
)
from daemon.app.daemon import Daemon, Overrides, open_daemon

__all__ = [
    "Daemon",
    "DaemonConnection",
    "Overrides",
    "connect",
    "load_or_last_good",
    "open_daemon",
    "open_reader",
]
