"""python-telegram-bot, imported in one place, without the HTTP client that comes with it: requests are made in request.py, and
that client, with all that it imports, is a third of what the library costs at every start.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

CLIENT = "telegram.request._httpxrequest"


class HTTPXRequest:
    """In place of the library's own client, which is there for whoever makes one all the same."""

    def __new__(cls, *args: object, **options: object) -> object:
        """The library's own."""
        return import_module(CLIENT).HTTPXRequest(*args, **options)


@contextmanager
def _left_out() -> Iterator[None]:
    standing_in = ModuleType(CLIENT)
    vars(standing_in)["HTTPXRequest"] = HTTPXRequest
    sys.modules.setdefault(CLIENT, standing_in)
    try:
        yield
    finally:
        if sys.modules[CLIENT] is standing_in:
            del sys.modules[CLIENT]


with _left_out():
    from telegram import Bot, InputFile
    from telegram.constants import UpdateType
    from telegram.error import TelegramError
    from telegram.request import BaseRequest, RequestData

__all__ = ["BaseRequest", "Bot", "InputFile", "RequestData", "TelegramError", "UpdateType"]
