"""Keys of the terminal are never lost: what is typed while something is drawn, or before the prompt stands, waits for it."""

import sys
from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.vt100 import Vt100Input


class PatientInput(Vt100Input):
    """An input that stays raw while lines are drawn above it.

    In the usual ("cooked") state meanwhile the terminal itself would act on a Ctrl-D or Ctrl-C and echo letters into the text.
    """

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Nothing changes: drawing needs no cooked terminal."""
        return nullcontext()


def patient_input() -> Input:
    """The keys of this process's terminal; what stands in for them where it has none."""
    return PatientInput(sys.stdin) if sys.stdin.isatty() else create_input()
