"""Gaps in the reserve of memory pools."""
