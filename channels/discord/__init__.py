"""Discord: gateway in, REST out: `channel.Discord`, `config.DiscordConfig`."""
