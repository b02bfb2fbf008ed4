"""Agents at work for other agents."""
