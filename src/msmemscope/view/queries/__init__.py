"""The questions to an index: windows, moments, trees, tables."""
