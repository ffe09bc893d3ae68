"""How much memory stands for a call stack or a call site, by several measures."""
