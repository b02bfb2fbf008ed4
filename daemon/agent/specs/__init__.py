"""What an agent's spec may say, and where specs are kept."""
