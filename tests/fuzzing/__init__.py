"""Fuzzing: damaged, odd and hostile inputs through the public entry points, in processes with limits."""
