"""The Attr column, as CSV and as DB files have it.

CSV: `{allocation_id:4,addr:0x…,size:64}`, empty if there is nothing to say. There is
no escaping in this form: a value runs up to the next `,key:`.
DB: `{"allocation_id":"4","addr":"0x…","size":"64"}`, compact JSON whose values are all
strings, `{}` if there is nothing to say. MindStudio Insight searches it as text, so
key and value stand side by side without blanks.
"""

from __future__ import annotations

import json
from enum import Enum

import polars as pl

from msmemscope.formats.attributes import hexadecimal, named_texts
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import ACCESS_KINDS, MEMORY_KINDS, EventFlag, EventKind
from msmemscope.model.pools import POOL_WORDS, POOLS_WITH_RESERVE, Pool


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

    def recorded(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Writes attributes that were recorded.

        Args:
            pairs: Of `formats.attributes.PAIR_SCHEMA`.

        Returns:
            `id` and `text`: those of an id, one behind the other. What has an attribute of its own is left out: whether
            memory is pinned, which stands among the statistics, for FREE as for MALLOC, and the module, which is part
            of the owner.
        """
        shown = ~pl.col("key").is_in([int(AttributeKey.MODULE), int(AttributeKey.IS_PINNED)])
        named = named_texts(pairs.filter(shown))
        if self is AttributeForm.JSON:
            named = named.with_columns(_json_strings(named["name"]), _json_strings(named["value"]))
        text = pl.concat_str("name", pl.lit(":"), "value")
        return named.group_by("id", maintain_order=True).agg(text.str.join(",").alias("text"))

    def owner(self, text: str) -> str:
        """Returns the attribute that names an owner: free text, which may hold colons, commas and quotes of its own."""
        return f"owner:{text}" if self is AttributeForm.CSV else f'"owner":{_json_string(text)}'

    @property
    def nothing(self) -> str | None:
        """What is written if an event has no attributes."""
        return None if self is AttributeForm.CSV else "{}"


def pointer_text(address: pl.Expr) -> pl.Expr:
    """Returns addresses as `0x` and 16 hexadecimal digits."""
    return pl.concat_str(pl.lit("0x"), hexadecimal(address))


def attribute_column(form: AttributeForm) -> pl.Expr:
    """Builds the Attr column.

    Args:
        form: How it is written.

    Returns:
        An expression over EVENT_SCHEMA and the columns `pointer` (see
        `pointer_text`), `live_bytes` (see `RunningTotals`), those of
        `LastValues`, `owner`: the attribute that names the owner of a MALLOC
        (see `OwnerColumn`), and `recorded`: what its `attribute_id` adds (see
        `AttributeForm.recorded`). Both are already in the given form, and null if there is none.
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


def _json_strings(texts: pl.Series) -> pl.Series:
    """Escapes texts, each different one once."""
    different = texts.unique()
    escaped: pl.Series = texts.replace_strict(
        different, [_json_string(text) for text in different], return_dtype=pl.String
    )
    return escaped


def _json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
