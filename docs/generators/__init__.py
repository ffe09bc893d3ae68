"""The writers of `make docs`, one module per kind of page or picture."""
