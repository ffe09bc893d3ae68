"""Who asked the driver for a block, as the texts of attributes and owners name it: `CANN@RUNTIME`."""

from __future__ import annotations

from typing import Final

import polars as pl

from msmemscope.model.devices import KIND_NAMES

_RUNTIMES: Final = "|".join(names.runtime for names in KIND_NAMES.values())


def driver_owner_of(text: pl.Expr) -> pl.Expr:
    """Return the owner that a text begins with, `CANN@RUNTIME`; null if it names none."""
    return text.str.extract(rf"^((?:{_RUNTIMES})@[^@,]+)")


def driver_module_of(text: pl.Expr) -> pl.Expr:
    """Return the module of the owner that a text begins with, `RUNTIME`; null if it names none."""
    return text.str.extract(rf"^(?:{_RUNTIMES})@([^@,]+)")


def driver_modules(texts: pl.DataFrame) -> pl.DataFrame:
    """Find the modules that attributes of blocks name.

    Args:
        texts: Of the attributes, a table of `STRING_SCHEMA`.

    Returns:
        `id` and `text` of those that name one; the text is the module.
    """
    return texts.with_columns(driver_module_of(pl.col("text"))).drop_nulls("text")
