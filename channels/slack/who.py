"""Who we are in a workspace."""

from dataclasses import dataclass

from channels.slack.shape import Json, maybe


@dataclass(frozen=True, slots=True)
class Who:
    """`user`: our member id, by which we are mentioned; `bot`: the app's own; `team`: the workspace."""

    user: str
    bot: str
    team: str
    name: str
    workspace: str

    @classmethod
    def told(cls, answer: Json) -> "Who":
        """From `auth.test`."""
        user, name, workspace = maybe(answer, "user_id"), maybe(answer, "user"), maybe(answer, "team")
        return cls(user, maybe(answer, "bot_id"), maybe(answer, "team_id"), name, workspace)

    def wrote(self, message: Json) -> bool:
        """A message of ours."""
        user, bot = maybe(message, "user"), maybe(message, "bot_id")
        return bool(user and user == self.user) or bool(bot and bot == self.bot)
