"""Growth over hours and weeks, from the moments that were kept of a run."""
