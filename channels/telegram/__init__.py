"""Telegram as a front door (A14): `channel.Telegram`, `config.TelegramConfig`."""
