"""A small web page for any fake platform, at /_page: a person types, sees the bot's messages as the platform would show them,
presses buttons, reacts, sends and fetches files. No part of it comes from elsewhere.
"""

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from aiohttp.web_request import FileField

from tests.fakes.platform import OTHER, OWNER, STRANGER, Platform, Shown

PEOPLE = (OWNER, OTHER, STRANGER)
STATIC = Path(__file__).with_name("page_static")
FRESH = {"Cache-Control": "no-store"}


def routes(platform: Platform) -> list[web.RouteDef]:
    """The page, for the platform's own server."""
    page = _Page(platform)
    return [
        web.get("/_page", page.index),
        web.get("/_page/static/{name}", page.static),
        web.get("/_page/state", page.state),
        web.get("/_page/file", page.file),
        web.post("/_page/say", page.say),
        web.post("/_page/press", page.press),
        web.post("/_page/react", page.react),
    ]


@dataclass(slots=True)
class _Page:
    platform: Platform
    groups: dict[str, str] = field(default_factory=dict)

    async def index(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(STATIC / "page.html", headers=FRESH)

    async def static(self, request: web.Request) -> web.StreamResponse:
        found = STATIC / Path(request.match_info["name"]).name
        return (
            web.FileResponse(found, headers=FRESH) if found.is_file() else web.Response(status=404)
        )

    async def state(self, request: web.Request) -> web.Response:
        """What the person sees in the chat: ?person=ann&where=private|group&thread=."""
        person = request.query.get("person", OWNER)
        chat = self._chat(person, request.query.get("where", "private"))
        shown = self.platform.shown(chat, request.query.get("thread", ""))
        told = {
            "platform": self.platform.name.rpartition("/")[2],
            "people": PEOPLE,
            "chat": chat,
            "messages": [_message(message) for message in shown],
            "toasts": self.platform.pressed(),
        }
        return web.json_response(told, headers=FRESH)

    async def file(self, request: web.Request) -> web.Response:
        """One file of a message: ?person=&where=&thread=&id=&at=."""
        query = request.query
        chat = self._chat(query.get("person", OWNER), query.get("where", "private"))
        for message in self.platform.shown(chat, query.get("thread", "")):
            if message.id == query["id"]:
                name, content = message.files[int(query.get("at", "0"))]
                kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
                safe = "".join(char if char.isalnum() or char in "._-" else "_" for char in name)
                headers = {"Content-Disposition": f'attachment; filename="{safe}"', **FRESH}
                return web.Response(body=content, content_type=kind, headers=headers)
        return web.Response(status=404)

    async def say(self, request: web.Request) -> web.Response:
        """A person writes: person, where, thread, text, addressed, and any number of files."""
        form = await request.post()
        where, text = str(form.get("where", "private")), str(form.get("text", ""))
        if where == "group" and form.get("addressed"):
            text = self.platform.mention(text)
        files = [
            (part.filename, part.file.read())
            for part in form.getall("files", [])
            if isinstance(part, FileField)
        ]
        person = str(form.get("person", OWNER))
        chat = self._chat(person, where)
        said = self.platform.say(
            person,
            chat,
            text,
            thread=str(form.get("thread", "")),
            files=[one for one in files if one[0]],
        )
        return web.json_response({"id": said})

    async def press(self, request: web.Request) -> web.Response:
        """A person presses a button: {person, id, data}."""
        told = await request.json()
        self.platform.press(told["person"], told["id"], told["data"])
        return web.json_response({})

    async def react(self, request: web.Request) -> web.Response:
        """A person reacts: {person, id, emoji}."""
        told = await request.json()
        self.platform.react(told["person"], told["id"], told["emoji"])
        return web.json_response({})

    def _chat(self, person: str, where: str) -> str:
        if where != "group":
            return self.platform.private(person)
        if where not in self.groups:
            self.groups[where] = self.platform.group(*PEOPLE)
        return self.groups[where]


def _message(shown: Shown) -> dict[str, object]:
    return {
        "id": shown.id,
        "author": shown.author,
        "text": shown.text,
        "markup": shown.markup,
        "by_bot": shown.by_bot,
        "buttons": [{"label": button.label, "data": button.data} for button in shown.buttons],
        "edits": shown.edits,
        "thread": shown.thread,
        "files": _files(shown.files),
        "reactions": list(shown.reactions),
        "draft": shown.draft,
    }


def _files(files: Sequence[tuple[str, bytes]]) -> list[dict[str, object]]:
    return [{"name": name, "size": len(content)} for name, content in files]
