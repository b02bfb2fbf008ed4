"""[[verify]]: the criteria that a final answer is held against, as a file says them (E10)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from daemon.agent.specs.parts import STRICT, Text
from daemon.core.patterns import pattern_fault
from daemon.core.terms import Check


def sound_pattern(pattern: str) -> str:
    """A regular expression that can be used. Raises ValueError."""
    if fault := pattern_fault(pattern):
        raise ValueError(f"expected a regular expression: {fault}")
    return pattern


Pattern = Annotated[Text, AfterValidator(sound_pattern)]


class TextCheckPart(BaseModel):
    """The answer contains this text, or this command exits with 0, or a model that is asked this about it says yes (E10)."""

    model_config = STRICT

    kind: Literal["contains", "test_pass", "judge"]
    value: Text

    def check(self) -> Check:
        """As a turn carries it."""
        return Check(self.kind, self.value)


class RegexCheckPart(BaseModel):
    """The answer matches this (E10)."""

    model_config = STRICT

    kind: Literal["regex"]
    value: Pattern

    def check(self) -> Check:
        """As a turn carries it."""
        return Check("regex", self.value)


class ToolCheckPart(BaseModel):
    """This tool has given such a result in this turn (E10)."""

    model_config = STRICT

    kind: Literal["tool_result"]
    tool: Text
    exit_code: int | None = None
    contains: str = ""

    def check(self) -> Check:
        """As a turn carries it."""
        return Check("tool_result", self.contains, self.tool, self.exit_code)


class ManualCheckPart(BaseModel):
    """A person says yes to the answer; `value` says what to look at (E10)."""

    model_config = STRICT

    kind: Literal["manual"]
    value: str = ""

    def check(self) -> Check:
        """As a turn carries it."""
        return Check("manual", self.value)


CheckPart = Annotated[TextCheckPart | RegexCheckPart | ToolCheckPart | ManualCheckPart, Field(discriminator="kind")]
