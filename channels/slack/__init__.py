"""Slack: Socket Mode in, web API out: `channel.Slack`, `config.SlackConfig`."""
