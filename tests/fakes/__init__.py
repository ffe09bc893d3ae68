"""Stand-ins for what tests cannot have."""
