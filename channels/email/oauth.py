"""Access tokens for mailboxes that take no password: made from a refresh token, kept in memory."""

import asyncio
import time

import aiohttp

from channels.base import RetryLater, Revoked
from channels.email.config import OAuthConfig
from channels.transport import proxy_for

TIMEOUT_S, SPARE_S = 20.0, 120.0
SCOPE = (
    "https://outlook.office.com/IMAP.AccessAsUser.All https://outlook.office.com/SMTP.Send"
    " offline_access"
)


class AccessTokens:
    """The token of an account, as long as it is good."""

    def __init__(self, config: OAuthConfig) -> None:
        self._config = config
        self._token, self._until, self._is_new = "", 0.0, False

    @property
    def in_use(self) -> bool:
        """Instead of a password."""
        return bool(self._config.refresh_token)

    def forget(self) -> bool:
        """It was refused: the next one is asked for anew. Whether that is worth a try: a token that
        was just made is refused for another reason than its age.
        """
        self._token, was_known = "", bool(self._token)
        return was_known and not self._is_new

    async def get(self) -> str:
        """A good one. Raises RetryLater, Revoked."""
        self._is_new = not (self._token and time.monotonic() < self._until)
        if not self._is_new:
            return self._token
        config, url = self._config, self._config.url
        form = {
            "grant_type": "refresh_token",
            "client_id": config.client_id,
            "client_secret": config.client_secret,
            "refresh_token": config.refresh_token,
            "scope": SCOPE if config.provider == "microsoft" else "",
        }
        data = {key: one for key, one in form.items() if one}
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                aiohttp.ClientSession() as session,
                session.post(url, data=data, proxy=proxy_for(url), allow_redirects=False) as answer,
            ):
                said, status = await answer.json(content_type=None), answer.status
            token = str(said.get("access_token", "")) if isinstance(said, dict) else ""
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise RetryLater("the server that gives out mail tokens does not answer") from error
        if not token or not token.isascii() or not token.isprintable():
            if status in (400, 401, 403):
                raise Revoked(
                    "the mail provider refuses the sign-in: [email.oauth] needs a new refresh_token"
                )
            raise RetryLater(f"the server that gives out mail tokens answers {status}")
        seconds = said.get("expires_in")
        lasts = float(seconds) if isinstance(seconds, int | float) else 0.0
        self._token, self._until = token, time.monotonic() + max(0.0, lasts - SPARE_S)
        return token
