"""The workers of the engine."""
