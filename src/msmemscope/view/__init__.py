"""The viewer: an index of each process, the queries of it, and the local server of the page."""
