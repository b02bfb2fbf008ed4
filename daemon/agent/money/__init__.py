"""Budgets: accounts, the day, and the question for more."""
