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
from typing import Final

import polars as pl

from msmemscope.formats.attributes import hexadecimal, named_texts
from msmemscope.formats.dump.inefficient_attribute import KEY
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import ACCESS_KINDS, MEMORY_KINDS, EventFlag, EventKind
from msmemscope.model.pools import POOL_WORDS, POOLS_WITH_RESERVE, Pool

_TASK_KINDS: Final = (EventKind.KERNEL_LAUNCH, EventKind.KERNEL_EXECUTE_START, EventKind.KERNEL_EXECUTE_END)
_NEEDED: Final = (
    "kind", "sequence", "pool", "device", "flags", "size", "extra", "pointer", "live_bytes", "reserved_bytes",
    "process_used_bytes", "device_used_bytes", "owner", "recorded", KEY,
)  # fmt: skip


class AttributeForm(Enum):
    """How the Attr column is written."""

    CSV = "csv"
    JSON = "json"

    def pair(self, key: str, value: pl.Expr) -> pl.Expr:
        """Returns one attribute whose value needs no escaping; null where the value is null."""
        if self is AttributeForm.CSV:
            return pl.concat_str(pl.lit(self.opening(key)), value)
        return pl.concat_str(pl.lit(self.opening(key)), value, pl.lit(self.closing))

    def opening(self, key: str) -> str:
        """Returns what stands in front of the value of an attribute."""
        return f"{key}:" if self is AttributeForm.CSV else f'"{key}":"'

    @property
    def closing(self) -> str:
        """What stands behind the value of an attribute."""
        return "" if self is AttributeForm.CSV else '"'

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

    def attribute(self, key: str, text: str) -> str:
        """Returns an attribute whose value is free text, which may hold colons, commas and quotes of its own."""
        return f"{key}:{text}" if self is AttributeForm.CSV else f'"{key}":{_json_string(text)}'

    @property
    def nothing(self) -> str | None:
        """What is written if an event has no attributes."""
        return None if self is AttributeForm.CSV else "{}"


def pointer_text(address: pl.Expr) -> pl.Expr:
    """Returns addresses as `0x` and 16 hexadecimal digits."""
    return pl.concat_str(pl.lit("0x"), hexadecimal(address))


def attribute_texts(form: AttributeForm, batch: pl.DataFrame) -> pl.Series:
    """Builds the Attr column.

    Rows that are about the same have the same attributes, so they are rendered together: most of the time of writing a dump
    would go into attributes that a row does not have.

    Args:
        form: How it is written.
        batch: EVENT_SCHEMA and the columns `pointer` (see `pointer_text`), `live_bytes` (see `RunningTotals`), those of
            `LastValues`, `owner` and `inefficient_type` of a MALLOC (see `BlockColumn`), and `recorded`: what the string of
            `attribute_id` adds. The last three are already in the given form, and null if there is none.

    Returns:
        One text per row; null, or what the form has for it, if there is nothing to say.
    """
    kinds = batch["kind"]
    needed = batch.select(_NEEDED)
    groups = [kinds.is_in([int(kind) for kind in chosen]) for chosen in (MEMORY_KINDS, ACCESS_KINDS, _TASK_KINDS)]
    groups.append(~(groups[0] | groups[1] | groups[2]))
    places = [group.arg_true() for group in groups]
    renderers = (_of_memory, _of_access, _of_task, _of_others)
    texts = [
        renderer(form, needed[rows]) for renderer, rows in zip(renderers, places, strict=True) if not rows.is_empty()
    ]
    order = pl.concat(places).arg_sort()
    return pl.concat(texts).gather(order).alias("Attr") if texts else pl.Series("Attr", [], dtype=pl.String)


def _of_memory(form: AttributeForm, rows: pl.DataFrame) -> pl.Series:
    is_shadow = pl.col("flags") & int(EventFlag.SHADOW) != 0
    shadow = pl.when(is_shadow).then(form.pair("shadow", pl.lit("true")))
    behind = (*_statistics(form), shadow, pl.col("owner"), pl.col("recorded"), pl.col(KEY))
    block = pl.when(pl.col("kind") == EventKind.MALLOC).then(pl.col("sequence")).otherwise(pl.col("extra"))
    return _joined(form, rows, _about_block(block), behind)


def _of_access(form: AttributeForm, rows: pl.DataFrame) -> pl.Series:
    pool_words = pl.Series([POOL_WORDS.get(value) for value in range(256)], dtype=pl.String)
    pool = form.pair("type", pl.lit(pool_words).gather(pl.col("pool")))
    return _joined(form, rows, _about_block(pl.col("extra")), (pool, pl.col("recorded")))


def _of_task(form: AttributeForm, rows: pl.DataFrame) -> pl.Series:
    stream, task = pl.col("extra") // (1 << 32), pl.col("extra") % (1 << 32)
    return _joined(form, rows, {"streamId": stream, "taskId": task}, (pl.col("recorded"),))


def _of_others(form: AttributeForm, rows: pl.DataFrame) -> pl.Series:
    text = pl.concat_str(pl.lit("{"), pl.col("recorded"), pl.lit("}"))
    return rows.select(text.fill_null(pl.lit(form.nothing, dtype=pl.String))).to_series()


def _about_block(block: pl.Expr) -> dict[str, pl.Expr]:
    return {"allocation_id": block, "addr": pl.col("pointer"), "size": pl.col("size")}


def _joined(
    form: AttributeForm, rows: pl.DataFrame, always: dict[str, pl.Expr], behind: tuple[pl.Expr, ...]
) -> pl.Series:
    """Returns attributes in braces.

    Args:
        form: How they are written.
        rows: What the attributes are of.
        always: The values that every row has, by their keys.
        behind: Further attributes, which follow where they are not null.
    """
    pieces: list[pl.Expr] = []
    between = "{"
    for key, value in always.items():
        pieces += [pl.lit(between + form.opening(key)), value.cast(pl.String)]
        between = f"{form.closing},"
    further = rows.select(part.alias(str(place)) for place, part in enumerate(behind))
    found = [column for column in further.get_columns() if column.null_count() < len(column)]
    commas = [pl.concat_str(pl.lit(","), pl.lit(column)) for column in found]
    text = pl.concat_str(*pieces, pl.lit(form.closing), *commas, pl.lit("}"), ignore_nulls=True)
    return rows.select(text.alias("Attr")).to_series()


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
