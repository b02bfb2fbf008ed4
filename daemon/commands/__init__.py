"""The chat commands, one implementation for all channels."""
