"""Models that tests fetch as `aidaemon model pull` does."""

from daemon.ops.models import FetchObserver


class Silent(FetchObserver):
    """Nobody watches the fetch."""

    def say(self, text: str) -> None: ...

    def advance(self, done: int) -> None: ...
