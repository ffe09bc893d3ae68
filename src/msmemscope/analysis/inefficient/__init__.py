"""Memory that is held longer than it is used."""
