"""The operator cases, one module for each family of kernels. Each module has a list ``CASES``."""
