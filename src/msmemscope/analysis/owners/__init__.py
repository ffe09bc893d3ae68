"""The owners of memory."""
