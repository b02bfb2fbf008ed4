"""discord.py, imported in one place: what it has to say about voice, which we never use, is kept quiet."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord
    from discord import gateway, http

discord.VoiceClient.warn_nacl = False
discord.VoiceClient.warn_dave = False

__all__ = ["discord", "gateway", "http"]
