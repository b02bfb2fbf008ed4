"""Telegram (A14): `channel.Telegram`, `config.TelegramConfig`."""
