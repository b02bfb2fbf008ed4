"""Importing a whole program in one go."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

OFTEN, NEVER = 5_000, 1_000_000


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is imported stays: only what is new is swept through, for to look through all of it again and again takes a tenth of
    the start, and a pause now and then later. Nor does pydantic look through all that is installed for plugins of its own.
    """
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    usual = gc.get_threshold()
    gc.set_threshold(OFTEN, NEVER, NEVER)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*usual)
