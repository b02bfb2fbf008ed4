"""The top: a config and a HOME become a daemon, or a door to one that runs. What listens is in `serve`: a chat does without."""

from daemon.app.doors import Opened, config_of, open_door, reading_door, running_daemon
from daemon.app.house import House, Parts, open_house

__all__ = ["House", "Opened", "Parts", "config_of", "open_door", "open_house", "reading_door", "running_daemon"]
