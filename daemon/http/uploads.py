"""POST /v1/files: a file for a message that follows."""

from aiohttp import web

from daemon.client.protocol import DaemonClient
from daemon.http.responses import PERSON, Text, json_response, read_raw_body
from daemon.http.routes import Query, read_query
from daemon.tools.documents.uploads import MAX_UPLOAD


class FileQuery(Query):
    """The name of the file."""

    name: Text


async def post_file(client: DaemonClient, request: web.Request) -> web.Response:
    """The body is the file, the query its name. A message names it by the token in `file`."""
    name = read_query(request, FileQuery).name
    data = await read_raw_body(request.clone(client_max_size=MAX_UPLOAD), MAX_UPLOAD)
    return json_response({"file": await client.upload(name, data, request[PERSON])}, 201)
