"""discord.py, imported in one place: what it has to say about voice, which we never use, is kept quiet, and so is
all that it would log for its own makers: that holds every message, and the tokens that buttons and commands are answered with.
"""

import logging
import re
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord
    from discord import gateway, http

TOKENED = re.compile(r"(/(?:interactions|webhooks)/[^/]+/)[^/\s]+")


def _without_tokens(record: logging.LogRecord) -> bool:
    """Where it tells of limits it names the address, and so the token that a button or a command is answered with."""
    if isinstance(record.args, tuple):
        record.args = tuple(TOKENED.sub(r"\1…", part) if isinstance(part, str) else part for part in record.args)
    return True


logging.getLogger("discord").setLevel(logging.INFO)
logging.getLogger("discord.http").addFilter(_without_tokens)
discord.VoiceClient.warn_nacl = False
discord.VoiceClient.warn_dave = False

__all__ = ["discord", "gateway", "http"]
