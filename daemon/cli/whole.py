"""A run with everything that worked for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daemon.door.base import RunView, UsageView


@dataclass(frozen=True, slots=True)
class Whole:
    """A run, its transcript, and the runs of the agents that it set to work."""

    run: RunView
    transcript: Sequence[Mapping[str, object]]
    children: Sequence["Whole"] = ()

    @property
    def usage(self) -> UsageView:
        """What it used up, with all that worked for it."""
        used = [self.run.usage, *(child.usage for child in self.children)]
        prices = [one.usd for one in used]
        return UsageView(
            sum(one.input_tokens for one in used),
            sum(one.output_tokens for one in used),
            sum(one.cached_tokens for one in used),
            None if None in prices else sum(price for price in prices if price),
        )
