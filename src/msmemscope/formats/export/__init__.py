"""Formats that other tools open: a module per format, and one line for each in `export_formats`."""
