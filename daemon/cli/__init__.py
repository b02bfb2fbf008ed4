"""The command line: its exit codes, and errors in one line unless --debug asks for a traceback."""

import os
import sys
from collections.abc import Sequence
from functools import partial
from types import TracebackType

from daemon import VERSION

OK, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line. The exit code: 0 ok, 1 failed, 2 wrong usage or config, 130
    interrupted.
    """
    _reopen_closed_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"]:
        print(f"aidaemon {VERSION}")
        return OK
    sys.excepthook = partial(_report_bug, words)
    try:
        return _run(words)
    except KeyboardInterrupt:
        if "--debug" in words:
            raise
        return INTERRUPTED
    except BrokenPipeError:
        return _handle_broken_pipe()


def _reopen_closed_streams() -> None:
    """Under cron or `<&-` a standard stream may be closed: without this the journal could get its
    number.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _run(words: Sequence[str]) -> int:
    from daemon.cli.parsing import parse  # lazy: --version does without
    from daemon.core.errors import AidaemonError  # lazy: --version does without

    try:
        return parse(words)()
    except (AidaemonError, OSError) as error:
        return _report_error(error, words)
    except BaseExceptionGroup as group:
        found: BaseException | None = group.subgroup((AidaemonError, OSError))
        if found is None:
            raise
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        return _report_error(found, words)


def _report_error(error: BaseException, words: Sequence[str]) -> int:
    from daemon.core.errors import ConfigError, UsageError  # lazy: for errors only

    if isinstance(error, BrokenPipeError):
        return _handle_broken_pipe()
    if "--debug" in words:
        sys.excepthook(type(error), error, error.__traceback__)
    message = str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        message = (
            f"{where}{error.strerror or error}. Correct this and try again; what was accepted"
            " before is in the journal."
        )
    print(f"aidaemon: {_redact(message, words)}", file=sys.stderr)
    return WRONG_USAGE if isinstance(error, UsageError | ConfigError) else FAILED


def _report_bug(
    words: Sequence[str],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    if "--debug" in words:
        import traceback  # lazy: for errors only

        text = "".join(traceback.format_exception(kind, error, trace))
    else:
        text = (
            f"aidaemon: an error in the program itself: {kind.__name__}: {error}\n"
            "What was accepted before is in the journal. Run the command again with --debug"
            " to see where.\n"
        )
    print(_redact(text, words), end="", file=sys.stderr)


def _redact(text: str, words: Sequence[str]) -> str:
    """An error text may hold secrets."""
    from daemon.cli.parsing import parse_paths  # lazy: for errors only
    from daemon.core.errors import AidaemonError  # lazy: for errors only

    try:
        paths = parse_paths(words)
        if not (paths.secrets.exists() or paths.config.exists()):
            return text
        from daemon.app.config import make_redactor  # lazy: brings the config

        return make_redactor(paths).redact_text(text)
    except (AidaemonError, OSError):
        return text


def _handle_broken_pipe() -> int:
    """The reader of our output (head, less) has ended: keep the interpreter's last flush quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
