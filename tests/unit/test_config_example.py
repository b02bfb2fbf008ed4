"""config.toml.example shows every key there is, with its default, and nothing else."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from daemon.app.config import Config, parse_config
from daemon.settings.dotted_keys import iter_keys, list_names

EXAMPLE = Path(__file__).parents[2] / "config.toml.example"
TEXT = EXAMPLE.read_text()
ALL_OF_IT = re.sub(r"(?m)^#(?=[a-z\[])", "", TEXT)
ENV = {"OPENAI_API_KEY": "sk-example"}


def shown(
    value: Mapping[str, object], parents: tuple[str, ...] = ()
) -> Iterator[tuple[str, object]]:
    """(dotted key, value) of everything in a TOML text, with `*` for what the user names or counts."""
    for name, inner in value.items():
        place = (*parents, name if name in list_names(Config, parents) else "*")
        if isinstance(inner, list) and inner and isinstance(inner[0], Mapping):
            yield from (pair for item in inner for pair in shown(item, (*place, "*")))
        elif isinstance(inner, Mapping) and inner:
            yield from shown(inner, place)
        else:
            yield ".".join(place), inner


def default(key: str) -> object:
    """What holds for this key when the file says nothing."""
    value: object = Config().model_dump(mode="json")
    for part in key.split("."):
        assert isinstance(value, Mapping)
        value = value[part]
    return value


def test_it_loads_as_it_stands():
    assert parse_config(TEXT, EXAMPLE, env={}, secrets={}).config == Config()


def test_it_loads_with_every_example_switched_on():
    config = parse_config(ALL_OF_IT, EXAMPLE, env=ENV, secrets={}).config
    assert [fallback.api_key for fallback in config.provider.fallbacks] == ["sk-example"]
    assert config.provider.prices["my-model"].cached == 0.05


def test_it_shows_every_key_that_the_models_know_and_no_other():
    assert {key for key, _ in shown(tomllib.loads(ALL_OF_IT))} == set(iter_keys(Config))


def test_what_it_shows_is_the_default():
    differ = {
        key: (value, default(key))
        for key, value in shown(tomllib.loads(TEXT))
        if value != default(key)
    }
    assert differ == {}


def test_every_key_and_every_section_has_a_comment():
    lines = TEXT.splitlines()
    bare = [
        line for line in lines if re.match(r"[a-z_]+ = ", line) and "#" not in line.split("=", 1)[1]
    ]
    unexplained = [
        line for above, line in pairwise(lines) if line.startswith("[") and above[:2] != "# "
    ]
    assert bare + unexplained == []
