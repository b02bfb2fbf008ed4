"""What the process itself keeps to itself: no secret in a log line, none for who looks into its memory."""

import ctypes
import logging
import sys

from daemon.core.redaction import Redactor

PR_SET_DUMPABLE = 4


class DiscreetFormatter(logging.Formatter):
    """Another formatter's lines, tracebacks and all, without secrets."""

    def __init__(self, inner: logging.Formatter, redactor: Redactor) -> None:
        super().__init__()
        self.inner, self.redactor = inner, redactor

    def format(self, record: logging.LogRecord) -> str:
        """The whole of what is written."""
        return self.redactor.text(self.inner.format(record))


def discreet_logs(redactor: Redactor) -> None:
    """From now on, in every place where this process logs to."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(DiscreetFormatter(handler.formatter or logging.Formatter(), redactor))


def undumpable() -> None:
    """No other process of the same user can read this one's memory or environment, and no crash leaves them on disk."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
