"""The page: its files as they stand in `web/`, read once, each under a strict content policy."""

from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from aiohttp import web

PLACES = (
    "/",
    *("/chat", "/chat/{session}", "/today", "/runs", "/runs/{turn}", "/loops", "/work"),
    *("/memory", "/trust", "/people", "/cost", "/system"),
)
FILES_PATH = "/page/{name}"
VENDOR_PATH = "/page/vendor/{name}"
KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
INDEX = "index.html"
WEB = Path(__file__).parent / "web"


@cache
def load_files() -> dict[str, tuple[bytes, str, str]]:
    """By name: content, kind and tag."""
    found = {}
    for path in sorted(WEB.rglob("*")):
        if path.suffix in KINDS:
            data = path.read_bytes()
            tag = sha256(data).hexdigest()[:16]
            found[path.relative_to(WEB).as_posix()] = data, KINDS[path.suffix], tag
    return found


def add_page(app: web.Application) -> None:
    """Serve the page at each of its places, and its files."""
    index = partial(_send_file, INDEX)
    for place in PLACES:
        app.router.add_route("GET", place, index)
    app.router.add_route("GET", FILES_PATH, partial(_send_file, ""))
    app.router.add_route("GET", VENDOR_PATH, partial(_send_file, "vendor/"))


async def _send_file(name: str, request: web.Request) -> web.Response:
    found = load_files().get(name + request.match_info.get("name", ""))
    if found is None:
        raise web.HTTPNotFound
    data, kind, tag = found
    headers = {**HEADERS, "ETag": f'"{tag}"'}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    return web.Response(body=data, content_type=kind, charset="utf-8", headers=headers)
