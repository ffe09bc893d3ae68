"""The parts of the memory of a whole device."""
