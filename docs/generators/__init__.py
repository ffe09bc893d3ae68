"""What `make docs` writes, one module per kind of page or picture."""
