"""The config of a daemon that runs: looked at, edited, and taken on again without a restart where that can be done (A20)."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, cast

from daemon import plugins
from daemon.commands.settings import Reloaded
from daemon.config.keyed import changed, written
from daemon.config.load import Loaded, load
from daemon.config.model import Config
from daemon.config.paths import Paths
from daemon.config.secrets import Secrets

if TYPE_CHECKING:
    from daemon.config.edit import Change, Editor

ANEW: tuple[str, ...] = ("agent.drain_seconds",)
Take = Callable[[Config], None]
ValueOf = Callable[..., str]


@dataclass(slots=True)
class LiveConfig:
    """What runs, and the file it comes from. `takers` hand the new values of a section to the parts that use it, from their
    next turn on; a section without one, and `ANEW`, need a restart.
    """

    paths: Paths
    running: Loaded
    env: Mapping[str, str]
    takers: Mapping[str, Take]

    @property
    def config(self) -> Config:
        """What holds now."""
        return self.running.config

    def shown(self, key: str) -> str:
        """What the file says of it, as far as it is nobody's secret, and whether that holds already."""
        fresh, value_of = self._load(), cast(ValueOf, plugins.load("config", "value"))
        says = value_of(fresh, key, expanded=False)
        holds = value_of(Loaded(self.config, fresh.text, fresh.path), key, expanded=False) == says
        return says if holds else f"{says}\n(so the file says; it holds after /reload, or a restart)"

    def planned(self, key: str, value: object) -> "Change":
        """An edit of the file, checked."""
        return self._editor().plan(key, value)

    def change(self, key: str, value: object) -> str:
        """Edit the file."""
        editor = self._editor()
        plan = editor.plan(key, value)
        if not plan.keys:
            return f"{key} is so already; nothing was changed."
        editor.write(plan)
        return f"{', '.join(map(written, plan.keys))}: written to {self.paths.config}. It holds after /reload, or a restart."

    async def reload(self) -> Reloaded:
        """Take on what the file says. Raises ConfigError for a file that does not load: what runs goes on as it is."""
        fresh = await asyncio.to_thread(self._load)
        places = changed(self.config.model_dump(mode="json"), fresh.config.model_dump(mode="json"))
        keys = tuple(written(steps) for steps in places)
        live = tuple(key for key in keys if self._is_live(key))
        sections = dict.fromkeys(key.split(".")[0] for key in live)
        now = self._with(fresh.config, tuple(sections))
        self.running = Loaded(now, self.running.text, self.paths.config)
        for section in sections:
            self.takers[section](now)
        return Reloaded(live, tuple(key for key in keys if key not in live))

    def _is_live(self, key: str) -> bool:
        return key.split(".")[0] in self.takers and not any(fnmatchcase(key, pattern) for pattern in ANEW)

    def _with(self, fresh: Config, sections: tuple[str, ...]) -> Config:
        """What runs, with these sections as they are now; what needs a restart stays as it was."""
        taken: dict[str, object] = {name: getattr(fresh, name) for name in sections}
        for key in ANEW:
            section, _, name = key.partition(".")
            if section in taken:
                kept = getattr(getattr(self.config, section), name)
                taken[section] = getattr(fresh, section).model_copy(update={name: kept})
        return self.config.model_copy(update=taken)

    def _load(self) -> Loaded:
        return load(self.paths.config, env=self.env, secrets=Secrets(self.paths.secrets).read())

    def _editor(self) -> "Editor":
        """Imported when something is edited: most days nothing is."""
        make = cast("type[Editor]", plugins.load("config", "editor"))
        return make(self.paths.config, self.env, Secrets(self.paths.secrets).read())
