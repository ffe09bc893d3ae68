"""The Attr column, as CSV and as DB files have it.

CSV: `{allocation_id:4,addr:0x…,size:64}`, empty if there is nothing to say. There is
no escaping in this form: a value runs up to the next `,key:`.
DB: `{"allocation_id":"4","addr":"0x…","size":"64"}`, compact JSON whose values are all
strings, `{}` if there is nothing to say. MindStudio Insight searches it as text, so
key and value stand side by side without blanks.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Final

import polars as pl

from msmemscope.analysis.owners.ownership import split_allocation_text
from msmemscope.formats.dump.inefficient_attribute import KEY
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import ACCESS_KINDS, MEMORY_KINDS, PINNED, EventFlag, EventKind
from msmemscope.model.pools import POOL_WORDS, POOLS_WITH_RESERVE, Pool

_NEXT_KEY: Final = re.compile(r",\s*(?=\w+:)")
_IS_PAIR: Final = re.compile(r"\w+:")
_HEX_DIGITS: Final = pl.Series([f"{value:04x}" for value in range(1 << 16)])

"""Pools that hold memory of the driver in reserve: `total` is what they hold, `used` what is in use."""


class AttributeForm(Enum):
    """How the Attr column is written."""

    CSV = "csv"
    JSON = "json"

    def pair(self, key: str, value: pl.Expr) -> pl.Expr:
        """Returns one attribute; null where the value is null."""
        if self is AttributeForm.CSV:
            return pl.concat_str(pl.lit(f"{key}:"), value)
        # Only for values that need no escaping.
        return pl.concat_str(pl.lit(f'"{key}":"'), value, pl.lit('"'))

    def fragment(self, text: str) -> str:
        """Returns attributes that were recorded as text, `key:value,key:value`."""
        if self is AttributeForm.CSV:
            return text
        pairs = (part.partition(":") for part in _NEXT_KEY.split(text) if _IS_PAIR.match(part))
        return ",".join(f"{_json_string(key)}:{_json_string(value)}" for key, _, value in pairs)

    def allocation(self, text: str) -> str:
        """Returns the attributes of a MALLOC that were recorded as text: what the allocator says, without the owner."""
        said = split_allocation_text(text)[1]
        # Whether memory is pinned stands among the statistics, for FREE as for MALLOC.
        return "" if said == PINNED else self.fragment(said)

    def attribute(self, key: str, text: str) -> str:
        """Returns an attribute whose value is free text, which may hold colons, commas and quotes of its own."""
        return f"{key}:{text}" if self is AttributeForm.CSV else f'"{key}":{_json_string(text)}'

    @property
    def nothing(self) -> str | None:
        """What is written if an event has no attributes."""
        return None if self is AttributeForm.CSV else "{}"


def pointer_text(address: pl.Expr) -> pl.Expr:
    """Returns addresses as `0x` and 16 hexadecimal digits."""
    digits = [
        pl.lit(_HEX_DIGITS).gather(((address // (1 << shift)) % (1 << 16)).cast(pl.UInt32)) for shift in (48, 32, 16, 0)
    ]
    return pl.concat_str(pl.lit("0x"), *digits)


def attribute_column(form: AttributeForm) -> pl.Expr:
    """Builds the Attr column.

    Args:
        form: How it is written.

    Returns:
        An expression over EVENT_SCHEMA and the columns `pointer` (see
        `pointer_text`), `live_bytes` (see `RunningTotals`), those of
        `LastValues`, `owner` and `inefficient_type` of a MALLOC (see
        `BlockColumn`), and `recorded`: what the string of `attribute_id`
        adds. All three are already in the given form, and null if there is none.
    """
    kind = pl.col("kind")
    is_memory = kind.is_in([*MEMORY_KINDS])
    is_access = kind.is_in([*ACCESS_KINDS])
    is_task = kind.is_in([EventKind.KERNEL_LAUNCH, EventKind.KERNEL_EXECUTE_START, EventKind.KERNEL_EXECUTE_END])
    block = pl.when(kind == EventKind.MALLOC).then(pl.col("sequence")).otherwise(pl.col("extra"))
    pool_words = pl.Series([POOL_WORDS.get(value) for value in range(256)], dtype=pl.String)

    def where(condition: pl.Expr, *parts: pl.Expr) -> pl.Expr:
        return pl.when(condition).then(pl.concat_str(*parts, separator=",", ignore_nulls=True))

    parts = [
        where(
            is_memory | is_access,
            form.pair("allocation_id", block.cast(pl.String)),
            form.pair("addr", pl.col("pointer")),
            form.pair("size", pl.col("size").cast(pl.String)),
        ),
        *(pl.when(is_memory).then(pair) for pair in _statistics(form)),
        pl.when(is_memory & (pl.col("flags") & int(EventFlag.SHADOW) != 0)).then(form.pair("shadow", pl.lit("true"))),
        pl.when(is_access).then(form.pair("type", pl.lit(pool_words).gather(pl.col("pool")))),
        where(
            is_task,
            form.pair("streamId", (pl.col("extra") // (1 << 32)).cast(pl.String)),
            form.pair("taskId", (pl.col("extra") % (1 << 32)).cast(pl.String)),
        ),
        pl.col("owner"),
        pl.col("recorded"),
        pl.col(KEY),
    ]
    joined = pl.concat_str(*parts, separator=",", ignore_nulls=True)
    return (
        pl.when(joined == "")
        .then(pl.lit(form.nothing, dtype=pl.String))
        .otherwise(pl.concat_str(pl.lit("{"), joined, pl.lit("}")))
        .alias("Attr")
    )


def _statistics(form: AttributeForm) -> list[pl.Expr]:
    """Builds the attributes that tell how full a pool and its device are, in their order."""
    live = pl.col("live_bytes").cast(pl.String)
    pool, device = pl.col("pool"), pl.col("device")
    is_pinned = (pool == Pool.HAL) & (device == DEVICE_CPU)
    # CPU tensors: what is in use is all there is.
    is_cpu_tensor = (pool == Pool.HOST) & (device == DEVICE_CPU)
    has_reserve = pool.is_in([*POOLS_WITH_RESERVE])
    total = pl.when(is_cpu_tensor).then(live).when(has_reserve).then(pl.col("reserved_bytes").cast(pl.String))
    is_on_device = has_reserve | ((pool == Pool.HAL) & (device >= 0))
    return [
        form.pair("pinned", pl.when(is_pinned).then(pl.lit("true"))),
        form.pair("total", total),
        form.pair("used", pl.when(is_on_device | is_pinned).then(live)),
        form.pair("process_used", pl.when(is_on_device | is_pinned).then(pl.col("process_used_bytes").cast(pl.String))),
        form.pair("device_used", pl.when(is_on_device).then(pl.col("device_used_bytes").cast(pl.String))),
    ]


def _json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
