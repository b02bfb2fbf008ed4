"""Delivery and reception: what must never be lost, doubled or out of order, over a channel that can be made to go wrong."""
