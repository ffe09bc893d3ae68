"""Gaps in what memory pools hold."""
