"""How much memory each operator and kernel changes."""
