"""What can be done with people at a door: let one in by a code, list them, remove one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import TypeAdapter

from daemon.core.roles import Role
from daemon.people.people import Invited, Known

CODES, PEOPLE, REMOVE = "/v1/people/codes", "/v1/people", "/v1/people/remove"


class Register(Protocol):
    """Who is known. `daemon.people.people.People` is one."""

    async def invite(self, role: Role, channel: str = "") -> Invited:
        """A code that makes whoever sends it first such a person."""
        ...

    async def known(self) -> list[Known]:
        """Everybody who had a code."""
        ...

    async def remove(self, name: str) -> bool:
        """They are strangers again; False when nobody is known by this name."""
        ...


class Ask(Protocol):
    """Puts a request to the daemon; gives the body. Raises DaemonRefused, DaemonGone."""

    async def __call__(self, method: str, path: str, *, body: Mapping[str, object] | None = None) -> bytes:
        """The answer."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteRegister:
    """`Register` over HTTP."""

    ask: Ask

    async def invite(self, role: Role, channel: str = "") -> Invited:
        """A code; the daemon keeps its digest."""
        raw = await self.ask("POST", CODES, body={"role": role.value, "channel": channel})
        return TypeAdapter(Invited).validate_json(raw)

    async def known(self) -> list[Known]:
        """Everybody who had a code."""
        return TypeAdapter(list[Known]).validate_json(await self.ask("GET", PEOPLE))

    async def remove(self, name: str) -> bool:
        """They are strangers again."""
        raw = await self.ask("POST", REMOVE, body={"name": name})
        return TypeAdapter(dict[str, bool]).validate_json(raw)["removed"]
