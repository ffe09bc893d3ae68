"""The viewer: an index of each process, what can be asked of it, and the local server of the page."""
