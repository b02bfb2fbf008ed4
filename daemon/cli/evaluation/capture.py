"""Makes a case of an evaluation of a run that has ended."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from daemon.app.config import make_redactor
from daemon.cli.review.runs import open_light_reader
from daemon.cli.review.show import find_run
from daemon.core.errors import AidaemonError
from daemon.ops.evaluation.checks import Extraction, extract
from daemon.ops.evaluation.spec import append_case, check_prompt
from daemon.settings.paths import Paths
from daemon.settings.redaction import Redactor
from daemon.settings.validation_errors import mask_credentials

MAX_VALUE_CHARS = 200
ENDED = ("ended", "quarantined")
WITHOUT_FILES = "\nIts message came with files: they are no part of the case."


async def capture(paths: Paths, path: Path, turn: str) -> str:
    """Add a case to the spec at `path`; what was done, in words. Raises AidaemonError."""
    async with open_light_reader(paths) as reader:
        view = await find_run(reader, turn)
        transcript = await reader.get_transcript(view.turn)
    first = next((line for line in transcript if line["kind"] == "UserSaid"), None)
    if first is None or view.state not in ENDED:
        raise AidaemonError(f"run {view.turn} has not ended yet: nothing was written. Try again")
    redactor = make_redactor(paths)
    prompt = _clean(redactor, str(first["text"]))
    try:
        check_prompt(prompt)
    except ValueError as error:
        raise AidaemonError(f"run {view.turn} makes no case: {error}") from error
    case = {"name": view.turn, "prompt": prompt, "agent": view.agent}
    check = _choose_check(redactor, extract(transcript, view.iterations))
    append_case(path, case, check)
    files = WITHOUT_FILES if first.get("files") else ""
    return (
        f"Run {view.turn} is a case of {path} now, with one check to begin with: {check['of']}"
        f" contains {check['value']!r}. Edit it, then: aidaemon eval {path}{files}"
    )


def _clean(redactor: Redactor, text: str) -> str:
    """Without secrets of the config and of HOME, and without passwords in addresses."""
    return mask_credentials(redactor.redact_text(text))


def _choose_check(redactor: Redactor, extraction: Extraction) -> Mapping[str, object]:
    """The first line of the last tool's result, else of the reply, else how it ended. A line with
    something secret in it is none: it would not be found again.
    """
    for of, line in _iter_lines(extraction):
        if _clean(redactor, line) == line:
            return {"type": "contains", "of": of, "value": line[:MAX_VALUE_CHARS]}
    return {"type": "contains", "of": "terminatedBy", "value": extraction.terminated_by}


def _iter_lines(extraction: Extraction) -> Iterator[tuple[str, str]]:
    sources: Sequence[tuple[str, str]] = (
        ("finalToolResult", extraction.final_tool_result or ""),
        ("text", extraction.text),
    )
    for of, text in sources:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        yield from ((of, line) for line in lines[:1])
