"""Telegram on loopback: `FakeTelegram`. By hand: `python -m tests.fakes.telegram`."""

from tests.fakes.telegram.server import FakeTelegram

__all__ = ["FakeTelegram"]
