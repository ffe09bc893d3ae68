"""The index of a process: it answers any window and any moment of a long recording at once."""
