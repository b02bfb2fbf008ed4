"""What of a history fits into a request."""
