"""discord.py, imported in one place: what it has to say about voice, which we never use, is kept quiet, and so is
all that it would log for its own makers: that holds every message, and the tokens that buttons and commands are answered with.
"""

import logging
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord
    from discord import gateway, http

logging.getLogger("discord").setLevel(logging.INFO)
discord.VoiceClient.warn_nacl = False
discord.VoiceClient.warn_dave = False

__all__ = ["discord", "gateway", "http"]
