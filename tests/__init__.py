"""The tests: unit, integration, contracts, and what they share (support, fakes, target programs)."""
