"""Who asked the driver for a block: a module of the vendor's software, see `model.owners`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from msmemscope.model.owners import driver_owner

if TYPE_CHECKING:
    from msmemscope.recording.recording import Recording


def driver_modules(recording: Recording) -> pl.DataFrame:
    """Return the modules that attributes of blocks name.

    Returns:
        `id`, of the attributes, and `text`, the module.
    """
    return recording.attributes.select(id="attribute_id", text="module").drop_nulls("text")


def driver_owners(module: pl.Expr, device: int) -> pl.Expr:
    """Return the owners, `CANN@RUNTIME`, of blocks on a device by the modules that asked for them; null without one."""
    return pl.concat_str(pl.lit(driver_owner("", device)), module)
