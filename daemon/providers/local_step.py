"""One step of the embedded model: a JSON object that names a tool and its arguments, read whole or as it grows."""

import json
import re
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.core.errors import ErrorClass, ProviderError

REPLY = "reply"
REPLY_OPENS = re.compile(r'\s*\{\s*"tool"\s*:\s*"reply"\s*,\s*"args"\s*:\s*\{\s*"text"\s*:\s*"')
HIGH, LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
LETTERS = re.compile(
    r'[^"\\]+'
    r'|\\["\\/bfnrt]'
    rf"|{HIGH}{LOW}"
    rf"|{HIGH}(?=[^\\]|\\[^u]|\\u(?![dD][c-fC-F])[0-9a-fA-F]{{4}})"
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
)
LONE = re.compile("[\ud800-\udfff]")


class Step(BaseModel):
    """What the model wrote, understood."""

    model_config = ConfigDict(extra="forbid")
    tool: str
    args: dict[str, object]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str


def parse_step(raw: str) -> Step:
    """The step in what the model wrote. Raises ProviderError (malformed)."""
    try:
        return Step.model_validate(json.loads(raw, strict=False))
    except (ValidationError, ValueError) as exc:
        raise ProviderError(ErrorClass.MALFORMED, f"the embedded model wrote a broken step: {raw[:200]!r}") from exc


def reply_text(step: Step) -> str:
    """The words of a reply step. Raises ProviderError (malformed)."""
    try:
        return sound(_Reply.model_validate(step.args).text)
    except ValidationError as exc:
        raise ProviderError(ErrorClass.MALFORMED, "the embedded model wrote a reply without a text") from exc


def arguments_text(step: Step) -> str:
    """The arguments as compact JSON, the form in which they stand in later prompts."""
    return sound(compact(step.args))


def tidied(arguments: str) -> str:
    """Arguments as any model wrote them, in our form; what is not JSON is shown as none."""
    try:
        return sound(compact(json.loads(arguments)))
    except ValueError:
        return "{}"


def written(tool: str, arguments: str) -> str:
    """A step as the model writes it. The same bytes each time, so that the prompt cache is met."""
    return f'{{"tool":{compact(tool)},"args":{arguments}}}'


def compact(value: object) -> str:
    """JSON without spare spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def sound(text: str) -> str:
    """Half a surrogate pair cannot be sent anywhere: it becomes a replacement character."""
    return LONE.sub("\ufffd", text)


@dataclass(slots=True)
class ReplyDecoder:
    """Turns a growing reply step into its growing text. Of other steps nothing is shown."""

    _pending: str = ""
    _opened: bool = False
    _closed: bool = False
    _shown: list[str] = field(default_factory=list)

    def feed(self, piece: str) -> str:
        """What this piece adds to the text; an escape cut in two waits for its other half."""
        self._pending += piece
        if not self._opened and (opening := REPLY_OPENS.match(self._pending)):
            self._opened, self._pending = True, self._pending[opening.end() :]
        if not self._opened or self._closed:
            return ""
        return self._decode()

    @property
    def text(self) -> str:
        """All that was shown."""
        return "".join(self._shown)

    @property
    def opened(self) -> bool:
        """This is a reply step and its text has begun."""
        return self._opened

    def _decode(self) -> str:
        letters: list[str] = []
        at = 0
        while match := LETTERS.match(self._pending, at):
            letters.append(match.group())
            at = match.end()
        self._pending = self._pending[at:]
        self._closed = self._pending.startswith('"')
        shown = sound("".join(json.loads(f'"{letter}"', strict=False) for letter in letters))
        self._shown.append(shown)
        return shown
