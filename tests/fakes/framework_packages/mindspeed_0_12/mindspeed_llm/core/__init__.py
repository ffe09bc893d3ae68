"""Of the framework's shape only."""
