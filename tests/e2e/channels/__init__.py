"""Whole daemons with channels, against platforms that behave like the real ones, killed and cut off."""
