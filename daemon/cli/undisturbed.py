"""Importing a whole program in one go."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is imported stays: to look through all of it for what could go, again and again, takes a tenth of the start, and a
    pause now and then later. Nor does pydantic look through all that is installed for plugins of its own.
    """
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
