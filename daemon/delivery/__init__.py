"""The way out: from the outbox to the platforms, in order, once."""
