"""A8 with /reload: what a reload brought is part of the last good config; a fallback is told."""

import tomllib
from dataclasses import replace
from pathlib import Path

import tomli_w

from daemon.app.config import load_config
from daemon.app.daemon import open_daemon
from daemon.settings.paths import Paths
from tests.fakes.house import living, write_config
from tests.fakes.openai import FakeOpenAI, says

SESSION = "terminal:default"


def edit(paths: Paths, **sections: dict[str, object]) -> None:
    table = tomllib.loads(paths.config.read_text())
    for name, keys in sections.items():
        table[name] = {**table.get(name, {}), **keys}
    paths.config.write_text(tomli_w.dumps(table))


async def test_a8_a_lower_cap_that_a_reload_brought_is_in_the_last_good_config(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(says("ok"))
    async with living(tmp_path, model) as it:
        await it.ask("hello")
        edit(it.paths, budget={"daily_usd": 0.5})
        await it.command("/reload")
        assert "daily_usd" not in it.paths.lastgood.read_text()
        await it.ask("hello again")
        assert it.paths.lastgood.read_text() == it.paths.config.read_text()


async def test_a8_what_needs_a_restart_is_not_proven_and_not_kept(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(says("ok"))
    async with living(tmp_path, model) as it:
        edit(it.paths, budget={"daily_usd": 0.5}, provider={"base_url": "http://127.0.0.1:9/v1"})
        await it.command("/reload")
        await it.ask("hello")
        kept = tomllib.loads(it.paths.lastgood.read_text())
        assert kept["budget"] == {"daily_usd": 0.5}
        assert kept["provider"]["base_url"] == model.base_url


async def test_a8_status_and_health_show_that_the_last_good_config_is_in_use(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    paths = write_config(tmp_path, model.base_url)
    loaded = load_config(paths.config, env={}, secrets={})
    loaded = replace(loaded, notice="config.toml is not in use.")
    async with open_daemon(paths, loaded) as daemon:
        reply = (await daemon.client.send(SESSION, "/status")).reply
        assert "Config: config.toml is not in use." in reply
        health = await daemon.client.get_health()
        assert (health.ok, health.problems) == (True, ["config.toml is not in use."])
