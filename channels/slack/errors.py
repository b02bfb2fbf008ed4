"""What a refusal of Slack's means for the house."""

from collections.abc import Mapping

from channels.base import ChannelError, Later, Refused, Revoked, Unclear
from channels.slack.shape import Json, maybe

REVOKED = frozenset(
    {
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "not_allowed_token_type",
        "app_uninstalled",
    }
)
HALF_DONE = frozenset({"fatal_error", "internal_error"})
"""Slack says of these that some of it may have happened."""
NOTHING_DONE = frozenset({"service_unavailable", "request_timeout", "team_added_to_org", "ekm_access_denied"})
LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
UNKNOWN = frozenset(
    {"unknown_method", "method_deprecated", "missing_scope", "not_allowed", "feature_not_enabled", "http_400", "http_404"}
)
"""The workspace does not offer this method to us: there is no use in asking again."""
HINTS = {
    "not_in_channel": "invite the bot there: /invite @name",
    "channel_not_found": "the chat is gone, or the bot was never in it",
    "is_archived": "the channel is archived",
    "msg_too_long": "the text is longer than Slack takes",
    "restricted_action": "an administrator of the workspace does not let the bot write there",
    "cannot_dm_bot": "bots do not talk to each other",
    "invalid_blocks": "Slack does not take the buttons",
}
USUAL_WAIT_S = 5.0
TOKENS = "check app_token and bot_token in [slack], and that the app is still installed in the workspace"


class Declined(Refused):
    """Slack said no, and why: `code` is its own word for it ("not_in_channel", "http_404")."""

    def __init__(self, why: str, code: str) -> None:
        super().__init__(why)
        self.code = code

    @property
    def unknown(self) -> bool:
        """This workspace does not offer the method to us at all."""
        return self.code in UNKNOWN


def refusal(method: str, status: int, answer: Json, headers: Mapping[str, str], *, writes: bool) -> ChannelError:
    """What to raise for an answer that is no success. `writes`: the method changes something at Slack."""
    code = maybe(answer, "error")
    if status == 429 or code in LIMITED:
        return Later(f"Slack: {method}: too many calls", _seconds(headers.get("Retry-After", "")))
    if code in REVOKED:
        return Revoked(f"Slack: {method}: {code}; {TOKENS}")
    if status == 503 or code in NOTHING_DONE:
        return Later(f"Slack: {method}: {code or 'not available at the moment'}")
    if status >= 500 or code in HALF_DONE or (status < 300 and not code):
        return lost(f"Slack: {method}: {code or f'HTTP {status}, no answer that can be read'}", writes=writes)
    return Declined(f"Slack: {method}: {_told(code or f'http_{status}', answer)}", code or f"http_{status}")


def lost(why: str, *, writes: bool) -> ChannelError:
    """The answer did not come: it may be done; what only reads may just be asked again."""
    return Unclear(why) if writes else Later(why)


def _told(code: str, answer: Json) -> str:
    if code == "missing_scope":
        needed = maybe(answer, "needed") or "a scope that the app does not have"
        return f"missing_scope; add {needed} to the app's bot token scopes and install it again"
    return f"{code}; {HINTS[code]}" if code in HINTS else code


def _seconds(value: str) -> float:
    try:
        return max(0.0, float(value))
    except ValueError:
        return USUAL_WAIT_S
