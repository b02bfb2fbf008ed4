"""A place in the text of a TOML file is changed; comments, order and spelling of all else stay."""

import tomlkit
from tomlkit.container import OutOfOrderTableProxy
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable

from daemon.config.keyed import Steps, written
from daemon.core.errors import ConfigError

Table = tomlkit.TOMLDocument | AbstractTable | OutOfOrderTableProxy


def with_value(text: str, steps: Steps, value: object) -> str:
    """The text with this value at this place; None takes out what is there. Raises ConfigError for what TOML cannot hold."""
    document = tomlkit.parse(text)
    try:
        put(document, steps, value)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError, KeyError, IndexError) as error:
        raise ConfigError(f"{written(steps)}: cannot hold this: {error}") from error


def put(document: tomlkit.TOMLDocument, steps: Steps, value: object) -> None:
    """The same in a document. Raises TypeError and its like where there is no such place."""
    place: object = document
    for step in steps[:-1]:
        place = _inner(place, step)
    step = steps[-1]
    if isinstance(place, list):
        if value is None:
            del place[int(step)]
        else:
            place[int(step)] = value
    elif not isinstance(place, Table):
        raise TypeError(f"{step} stands in no table")
    elif value is not None:
        place[step] = value
    elif step in place:
        del place[step]


def _inner(place: object, step: str) -> object:
    if isinstance(place, list):
        return place[int(step)]
    if not isinstance(place, Table):
        raise TypeError(f"{step} stands in no table")
    if step not in place:
        place[step] = tomlkit.table()
    return place[step]
