"""Functions that replace parts of Megatron; it has none of its classes."""
