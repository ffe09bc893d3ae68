"""When the most memory was in use and its owners: in short, in full, and where memory ran out."""
