"""Memory that is reserved and not in use, and why."""
