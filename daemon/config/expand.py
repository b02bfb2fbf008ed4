"""`${NAME}` from the environment and `secret:NAME` from the secret store, in every string of a config."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET = "secret:"
TELLING = 4


@dataclass(slots=True)
class Expander:
    """Goes through a config and notes what it could not fill in, with the key it stands at."""

    env: Mapping[str, str]
    secrets: Mapping[str, str]
    faults: list[tuple[str, str]] = field(default_factory=list)
    _filled: dict[str, str] = field(default_factory=dict, repr=False)

    def as_written(self, text: str) -> str:
        """A message with every value that was filled in as the file names it: whoever reads a fault need not know them."""
        for value, name in sorted(self._filled.items(), key=lambda item: -len(item[0])):
            text = text.replace(value, name)
        return text

    def _put(self, value: str, as_written: str) -> str:
        if len(value) >= TELLING:
            self._filled[value] = as_written
        return value

    def expand(self, value: object, key: str = "") -> object:
        """The value with everything in it filled in."""
        match value:
            case str():
                return self._text(value, key)
            case list():
                return [self.expand(item, f"{key}.{index}") for index, item in enumerate(value)]
            case dict():
                return {name: self.expand(item, f"{key}.{name}" if key else name) for name, item in value.items()}
            case _:
                return value

    def _text(self, text: str, key: str) -> str:
        if text.startswith(SECRET):
            return self._secret(text.removeprefix(SECRET), text, key)
        return VARIABLE.sub(lambda match: self._variable(match[1], match[0], key), text)

    def _variable(self, name: str, as_written: str, key: str) -> str:
        if name not in self.env:
            self.faults.append((key, f"the environment variable {name} is not set; export it before the start"))
        return self._put(self.env.get(name, as_written), as_written)

    def _secret(self, name: str, as_written: str, key: str) -> str:
        if name not in self.secrets:
            near = get_close_matches(name, self.secrets, n=1)
            hint = f'; did you mean "{SECRET}{near[0]}"?' if near else f'; expected a line {name} = "..." in secrets.toml'
            self.faults.append((key, f"there is no secret named {name!r}{hint}"))
        return self._put(self.secrets.get(name, as_written), as_written)
