"""`${NAME}` from the environment and `secret:NAME` from the secret store, in every string of a config."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET = "secret:"


@dataclass(slots=True)
class Expander:
    """Goes through a config and notes what it could not fill in, with the key it stands at."""

    env: Mapping[str, str]
    secrets: Mapping[str, str]
    faults: list[tuple[str, str]] = field(default_factory=list)

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
        return self.env.get(name, as_written)

    def _secret(self, name: str, as_written: str, key: str) -> str:
        if name not in self.secrets:
            near = get_close_matches(name, self.secrets, n=1)
            hint = f'; did you mean "{SECRET}{near[0]}"?' if near else f'; expected a line {name} = "..." in secrets.toml'
            self.faults.append((key, f"there is no secret named {name!r}{hint}"))
        return self.secrets.get(name, as_written)
