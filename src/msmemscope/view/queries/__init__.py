"""What can be asked of an index: windows, moments, trees, tables."""
