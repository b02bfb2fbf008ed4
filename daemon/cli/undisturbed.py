"""Importing a whole program in one go."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is imported stays: to look through it for what could go takes a tenth of the start, and a pause now and then later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
