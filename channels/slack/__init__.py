"""Slack: Socket Mode in, web API out."""
