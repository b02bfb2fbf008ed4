"""The file of an evaluation: prompts for an agent, and checks of what comes of them (B10)."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import AfterValidator, Field, ValidationError

from daemon.agent.spec.sections import NAME, NAME_RULE, Section, Text
from daemon.core.errors import AidaemonError, ConfigError
from daemon.core.turn_spec import check_pattern
from daemon.settings.dotted_keys import get_child
from daemon.settings.load import NON_FINITE, config_error, find_non_finite, parse_table, read_text
from daemon.settings.paths import lock_folder, write_private_file
from daemon.settings.validation_errors import explain_errors

Source = Literal["text", "finalToolResult", "terminatedBy"]
COMMAND = re.compile(r"\s*/[A-Za-z_][\w-]*(@\w+|:\S+)?(\s|$)")
MOST_RUNS = 100


def check_prompt(prompt: str) -> str:
    """A message for an agent. Raises ValueError for a blank text, and for a chat command."""
    if not prompt.strip():
        raise ValueError("expected text that is not blank")
    if COMMAND.match(prompt):
        raise ValueError("expected a message for the agent; this is a chat command")
    return prompt


def _check_regex(pattern: str) -> str:
    if fault := check_pattern(pattern):
        raise ValueError(f"expected a regular expression: {fault}")
    return pattern


def _check_agent(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(NAME_RULE)
    return name


AgentName = Annotated[str, AfterValidator(_check_agent)]


class ContainsCheck(Section):
    """The text has this in it."""

    type: Literal["contains"]
    value: Text
    of: Source = "text"
    case_sensitive: bool = False
    negated: bool = Field(False, alias="not")


class RegexCheck(Section):
    """The pattern matches somewhere in the text; case is ignored, as in the criteria of loops."""

    type: Literal["regex"]
    pattern: Annotated[Text, AfterValidator(_check_regex)]
    of: Source = "text"
    negated: bool = Field(False, alias="not")


class RubricCriterion(Section):
    """One thing that the judge answers with yes or no."""

    text: Text
    weight: float = Field(1.0, gt=0)


class RubricCheck(Section):
    """The weighted share of the criteria that are met."""

    type: Literal["rubric"]
    criteria: list[RubricCriterion] = Field(min_length=1)
    threshold: float = Field(0.7, alias="pass", ge=0, le=1)


class JudgeCheck(Section):
    """A score from 0 to 1, given by the judge."""

    type: Literal["llm_judge"]
    question: Text
    threshold: float = Field(0.5, alias="pass", ge=0, le=1)


CheckSection = Annotated[
    ContainsCheck | RegexCheck | RubricCheck | JudgeCheck, Field(discriminator="type")
]


class EvalCase(Section):
    """A prompt, and what must hold of what comes of it."""

    name: Text
    prompt: Annotated[str, AfterValidator(check_prompt)]
    agent: AgentName | None = None
    repeat: int | None = Field(None, ge=1, le=MOST_RUNS)
    checks: list[CheckSection] = Field(min_length=1)


class EvalSpec(Section):
    """The whole file."""

    agent: AgentName = "default"
    repeat: int = Field(1, ge=1, le=MOST_RUNS)
    cases: list[EvalCase] = Field(min_length=1)


def read_spec(path: Path) -> EvalSpec:
    """The file at `path`. Raises ConfigError with a line for every fault."""
    if not path.exists():
        capture = f"aidaemon eval {path} --capture last"
        raise ConfigError(f"{path}: there is no such file. To begin it with a run: {capture}")
    return parse_eval_spec(read_text(path), path)


def parse_eval_spec(text: str, path: Path) -> EvalSpec:
    """A spec from its text; `path` is only named in messages. Raises ConfigError."""
    raw = parse_table(text, path)
    faults = dict(_find_equal_names(raw))
    try:
        spec = EvalSpec.model_validate(raw)
    except ValidationError as error:
        found = dict(explain_errors(error, EvalSpec, raw)) | faults
        raise config_error(path, list(found.items())) from error
    faults |= {key: NON_FINITE for key in find_non_finite(raw)}
    if faults:
        raise config_error(path, list(faults.items()))
    return spec


def _find_equal_names(raw: Mapping[str, object]) -> Sequence[tuple[str, str]]:
    cases = raw.get("cases")
    names = [get_child(one, "name") for one in cases] if isinstance(cases, list) else []
    return [
        (f"cases.{at}.name", f"found {name!r}, expected a name that no other case has")
        for at, name in enumerate(names)
        if isinstance(name, str) and name in names[:at]
    ]


def append_case(path: Path, case: Mapping[str, object], check: Mapping[str, object]) -> None:
    """Add a case with one check at the end of the file, which is made where there is none. What
    stands in the file stays as it is. Raises ConfigError and AidaemonError; then nothing is
    written.
    """
    path = path.resolve()
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent}: there is no such folder; nothing was written")
    with lock_folder(path.parent):
        before = read_text(path)
        if before.strip():
            names = [one.name for one in parse_eval_spec(before, path).cases]
            if case["name"] in names:
                raise AidaemonError(
                    f"{path} has a case {case['name']!r} already; nothing was changed. To capture"
                    " the run again, rename that case first"
                )
        added = f"[[cases]]\n{tomli_w.dumps(case)}[[cases.checks]]\n{tomli_w.dumps(check)}"
        gap = "\n" if before.endswith("\n") or not before else "\n\n"
        after = f"{before}{gap if before else ''}{added}"
        try:
            parse_eval_spec(after, path)
        except ConfigError as error:
            raise ConfigError(
                f"{error}\nThe case could not be added to {path}; nothing was changed. Expected"
                " each case under its own [[cases]]"
            ) from error
        write_private_file(path, after)
