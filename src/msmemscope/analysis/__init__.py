"""One file per question about a capture; pure functions from tables to typed results."""
