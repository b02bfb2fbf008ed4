"""What a lane works with."""
