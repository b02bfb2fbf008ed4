"""What a reply claims, and what the ledger shows."""
