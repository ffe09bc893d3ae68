"""Words about containers of the program that both the observed process and the analysis know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

OBJECTS_OF_CLASS: Final = "objects"
"""The type of container of all objects of a class."""
UP_TO: Final = " up to "
"""Between the type of a container and the most entries that it takes, where the program says so: `deque up to 10000`."""


def without_bound(types: pl.Expr) -> pl.Expr:
    """Return the types alone."""
    return types.str.replace(rf"{UP_TO}\d+$", "")


def bound_in(types: pl.Expr) -> pl.Expr:
    """Return the most entries, as a text; null where the program does not say them."""
    return types.str.extract(rf"{UP_TO}(\d+)$")
