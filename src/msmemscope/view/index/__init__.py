"""The index of a process: what makes any window and any moment of a long recording answerable at once."""
