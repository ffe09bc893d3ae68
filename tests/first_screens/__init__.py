"""First screens of small programs whose truth is known, kept to be looked at."""
