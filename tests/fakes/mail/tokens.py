"""A server that gives out access tokens for a refresh token, and tells mail servers whose they are (OAuth2)."""

import json
from base64 import b64encode

from aiohttp import web

from tests.fakes.mail.dovecot import USER

CLIENT, SECRET, REFRESH = "app-1", "client-secret-0815", "refresh-token-4711"


class TokenServer:
    """`good`: the refresh tokens that it takes; `lasts`: seconds that it says a token is good for; `given`: the tokens, with
    whether mail servers take them; `takes`: whether those to come are taken; `sends`: whether they
    are good for SMTP. `answer`: what it says instead, with its status.
    """

    def __init__(self) -> None:
        self.good, self.lasts, self.takes, self.sends = [REFRESH], 3600, True, True
        self.given: dict[str, bool] = {}
        self.answer: tuple[int, str] | None = None
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_post("/token", self._give)
        app.router.add_get("/introspect", self._tell)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """No longer reachable."""
        if self._runner:
            await self._runner.cleanup()

    def config(self) -> dict[str, object]:
        """What stands in [email] instead of a password."""
        oauth = {
            "client_id": CLIENT, "client_secret": SECRET, "refresh_token": REFRESH,
            "token_url": f"{self.url}/token",
        }  # fmt: skip
        return {"password": "", "oauth": oauth}

    def withdraw(self) -> None:
        """No token that was given is good any more."""
        self.given = dict.fromkeys(self.given, False)

    def is_good(self, token: str) -> bool:
        """Whether it lets its owner in."""
        return self.given.get(token, False)

    def secrets(self) -> list[str]:
        """What must never be told, also as it is sent."""
        sent = [f"user={USER}\1auth=Bearer {one}\1\1".encode() for one in self.given]
        return [SECRET, REFRESH, *self.given, *(b64encode(one).decode() for one in sent)]

    async def _give(self, request: web.Request) -> web.Response:
        form = await request.post()
        if self.answer:
            return web.Response(status=self.answer[0], text=self.answer[1])
        said = (form.get("grant_type"), form.get("client_id"), form.get("client_secret"))
        if said != ("refresh_token", CLIENT, SECRET) or form.get("refresh_token") not in self.good:
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = f"access-token-{len(self.given)}"
        self.given[token] = self.takes
        return web.json_response(
            {"access_token": token, "expires_in": self.lasts, "token_type": "Bearer"}
        )

    async def _tell(self, request: web.Request) -> web.Response:
        is_good = self.is_good(request.query.get("token", ""))
        text = json.dumps({"active": "true", "email": USER} if is_good else {"active": "false"})
        return web.Response(text=text, content_type="application/json")
