"""What can be wrong with an address, or with asking it."""

from daemon.tools.base import ToolError


class Refused(ToolError):
    """This address may not be asked. Nothing was sent."""
