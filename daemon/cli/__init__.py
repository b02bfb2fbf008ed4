"""The command line: its exit codes, and that no one is shown a traceback who did not ask for it."""

import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from types import TracebackType

from daemon import VERSION

OK, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code: 0 ok, 1 the work failed, 2 wrong usage or config, 130 interrupted."""
    _reopen_closed_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"]:
        print(f"aidaemon {VERSION}")
        return OK
    if "--debug" in words:
        sys.excepthook = partial(_print_traceback, words)
        return _run(words)
    sys.excepthook = partial(_print_brief_error, words)
    try:
        return _run(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _handle_broken_pipe()


def _reopen_closed_streams() -> None:
    """Started without stdin, stdout or stderr, by cron or `<&-`: else the journal could be opened in their place."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(
                sys,
                name,
                os.fdopen(os.open(os.devnull, os.O_RDWR), "r" if name == "stdin" else "w"),
            )


def _run(words: Sequence[str]) -> int:
    from daemon.cli.parsing import parse
    from daemon.core.errors import AidaemonError

    try:
        parsed = parse(words)
        return parsed.run(parsed.args)
    except (AidaemonError, OSError) as error:
        return _report_error(error, words)
    except BaseExceptionGroup as group:
        known = group.subgroup((AidaemonError, OSError))
        if known is None:
            raise
        return _report_error(_first_leaf(known), words)


def _report_error(error: BaseException, words: Sequence[str]) -> int:
    from daemon.core.errors import ConfigError, UsageError

    if isinstance(error, BrokenPipeError):
        return _handle_broken_pipe()
    if "--debug" in words:
        sys.excepthook(type(error), error, error.__traceback__)
    told = _describe_os_error(error) if isinstance(error, OSError) else str(error)
    print(f"aidaemon: {_redact(told, words)}", file=sys.stderr)
    return WRONG_USAGE if isinstance(error, UsageError | ConfigError) else FAILED


def _describe_os_error(error: OSError) -> str:
    """A file or a disk that is not as it should be: which one, and that nothing is lost."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}. Put that right and try again; what was accepted before is in the journal."


def _first_leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _print_traceback(
    words: Sequence[str],
    kind: type[BaseException],
    error: BaseException,
    where: TracebackType | None,
) -> None:
    """For who asked where in the program it was."""
    print(
        _redact("".join(traceback.format_exception(kind, error, where)), words),
        end="",
        file=sys.stderr,
    )


def _print_brief_error(
    words: Sequence[str],
    kind: type[BaseException],
    error: BaseException,
    _where: TracebackType | None,
) -> None:
    """What nobody foresaw, in two lines."""
    told = _redact(f"{kind.__name__}: {error}", words)
    print(f"aidaemon: an error in the program itself: {told}", file=sys.stderr)
    print(
        "What was accepted before is in the journal. Run the command again with --debug to see where.",
        file=sys.stderr,
    )


def _redact(text: str, words: Sequence[str]) -> str:
    """An error may hold whatever the program held."""
    from daemon.cli.parsing import parse_paths
    from daemon.core.errors import AidaemonError

    try:
        paths = parse_paths(words)
        if not (paths.secrets.exists() or paths.config.exists()):
            return text
        from daemon.settings.secret_values import make_redactor

        return make_redactor(paths).redact_text(text)
    except (AidaemonError, OSError):
        return text


def _handle_broken_pipe() -> int:
    """Whoever read our output (head, less) has enough: keep the interpreter's closing flush quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
