"""What each address asks of a person (C9). Every route names the right that it needs."""

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from daemon.client.protocol import SESSION_NAME, DaemonClient
from daemon.core.trust import Person, Right, Role, has_right
from daemon.http.responses import HttpError, invalid

PERSON = web.RequestKey("person", Person)
POLICY = 403, "POLICY_ERROR"
CREATABLE_CHANNELS = ("web", "terminal")
RIGHT_TEXTS = {
    Right.READ: "look at what others do",
    Right.TALK: "talk to the assistant",
    Right.WORK: "start, stop or approve work",
    Right.ANSWER: "say yes to what it asks",
    Right.MANAGE: "manage the daemon",
}
Handler = Callable[[DaemonClient, web.Request], Awaitable[web.StreamResponse]]
Routes = dict[tuple[str, str], tuple[Right, Handler]]
"""By method and address pattern."""


async def serve(
    client: DaemonClient, right: Right, handler: Handler, request: web.Request
) -> web.StreamResponse:
    """Serve a request of a person who has this right. Raises HttpError for anybody else."""
    person = request[PERSON]
    if not has_right(person.role, right):
        article = "an" if person.role.value[0] in "aeo" else "a"
        raise HttpError(
            *POLICY,
            f"{person.name} is {article} {person.role.value} here and may not"
            f" {RIGHT_TEXTS.get(right, 'do this')}; nothing was done",
        )
    return await handler(client, request)


def require_own_session(person: Person, session: str) -> None:
    """Raises HttpError unless the person may write in this session: the owner in all, others in
    those of their name.
    """
    own = f"web:{person.name}"
    if person.role is not Role.OWNER and session != own and not session.startswith(f"{own}."):
        raise HttpError(
            *POLICY,
            f"{person.name} may write in {own} and in {own}.ANYTHING, and in no other conversation",
        )


def parse_session(
    person: Person, name: str | None, channels: Sequence[str] = CREATABLE_CHANNELS
) -> str:
    """The session that NAME or CHANNEL:NAME means, without a name the person's own. Raises
    HttpError for one where the person may not write.
    """
    if name is None:
        name = "default" if person.role is Role.OWNER else person.name
    channel, _, chat = name.rpartition(":")
    channel = channel or channels[0]
    if channel not in channels or not SESSION_NAME.fullmatch(chat):
        forms = " or ".join(f"{channel}:NAME" for channel in channels)
        raise invalid(
            f"session: expected NAME or {forms}, with no ':' or '/' in it and at most 100"
            " characters; sessions of other channels cannot be written to from here"
        )
    session = f"{channel}:{chat}"
    require_own_session(person, session)
    return session
