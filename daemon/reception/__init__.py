"""The house as a channel sees it: who comes in, what becomes of what they say, what a button does."""
