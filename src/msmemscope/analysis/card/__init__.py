"""What the memory of a whole device went into."""
