"""Importing a whole program in one go."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

OFTEN, SELDOM = 5_000, 1_000_000


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is imported stays: to look through all of it for what could go, again and again, takes a tenth of the start, and a
    pause now and then later. Nor does pydantic look through all that is installed for plugins of its own.
    """
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    usual = gc.get_threshold()
    gc.set_threshold(OFTEN, usual[1], SELDOM)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*usual)
