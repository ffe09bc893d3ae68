"""`make check`: what a change can break, in a minute. The rest is left to `make test`, and named."""
