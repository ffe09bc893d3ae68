"""Starting programs under observation, and what runs inside the observed process."""
