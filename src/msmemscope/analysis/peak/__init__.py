"""When the most memory was in use and what it was, in short, in full, and where memory ran out."""
