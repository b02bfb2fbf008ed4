"""What became of the arguments of a call that were looked at."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """What became of a call's arguments. `strange` is the first value that is not the owner's, `unread` the first that was not
    read before either; "" where there is none.
    """

    strange: str = ""
    unread: str = ""

    @property
    def owned(self) -> bool:
        """All that decides where the effect goes is the owner's."""
        return not self.strange

    @property
    def read(self) -> bool:
        """Every address is the owner's, or stands in something that was read: it carries nothing out."""
        return not self.unread
