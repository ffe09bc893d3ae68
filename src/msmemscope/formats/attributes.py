"""Attributes of events between their forms: texts, pairs of key and value, and the typed table of a `Recording`.

All forms share the pairs. Pairs keep the order of the text, and also its parts that have no key.
Everything works on whole columns: a program that writes wrongly in a loop makes a million different sets of attributes.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.attributes import ATTRIBUTES, KEY_OF_NAME, AttributeKey, AttributeType
from msmemscope.model.devices import KIND_NAMES
from msmemscope.recording.schema import ATTRIBUTE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable

PAIR_SCHEMA: Final = pl.Schema(
    {
        "id": pl.UInt32(),
        "key": pl.UInt16(),
        "other": pl.String(),
        "number": pl.UInt64(),
        "text": pl.String(),
    }
)
"""One row per attribute, those of one id in their order.

id: attribute_id. key: AttributeKey; 0 where there is none, and then `other` is the name.
number, text: the value. Of a key whose values are numbers there is a text only where it is spelled unusually, or is none.
"""

NAMED_SCHEMA: Final = pl.Schema({"id": pl.UInt32(), "name": pl.String(), "value": pl.String()})
"""The same as texts have it."""

DRIVER_MODULE_PATTERN: Final = rf"^(?:{'|'.join(names.runtime for names in KIND_NAMES.values())})@([^@,]+)"
"""The beginning of attributes and owners of the driver's memory; the group is the module that asked for it."""
_NAME_OF_KEY: Final = {int(attribute.key): attribute.name for attribute in ATTRIBUTES}
_RANGES: Final = "ranges"
"""Name of what older event logs have as a text, `0-63,128-191`, with `,...` at its end where there are more."""
_PARTS: Final = "\x1e"
"""Put between the attributes of a text to take it apart; no text of ours holds it."""
_MILLION: Final = 1_000_000
_CHUNK: Final = 1 << 16
"""Sets of attributes that are taken apart at once: as pairs they take many times as much memory."""


@functools.cache
def _hexadecimal_digits() -> pl.Series:
    """All texts of four digits, in their order."""
    return pl.Series([f"{value:04x}" for value in range(1 << 16)])


def hexadecimal(number: pl.Expr) -> pl.Expr:
    """Return numbers of 64 bits as 16 hexadecimal digits."""
    digits = [
        pl.lit(_hexadecimal_digits()).gather(((number // (1 << shift)) % (1 << 16)).cast(pl.UInt32))
        for shift in (48, 32, 16, 0)
    ]
    return pl.concat_str(*digits)


def pairs_of_texts(texts: pl.DataFrame) -> pl.DataFrame:
    """Take texts apart as event logs before version 6 have them.

    Args:
        texts: `id` (u32) and `text`, either `CANN@RUNTIME,page_type:huge` or lines `key=value`. The owner
            (`CANN@RUNTIME` here) can be missing.

    Returns:
        A table of PAIR_SCHEMA.
    """
    if texts.is_empty():
        return PAIR_SCHEMA.to_frame()  # as of all newer logs
    text = pl.col("text")
    is_lines = text.str.contains(r"^\w+=")
    lines = texts.filter(is_lines).select("id", part=text.str.split("\n"))
    # A value runs up to the next `,key:`.
    separated = text.str.replace_all(r",\s*(\w+:)", f"{_PARTS}${{1}}").str.split(_PARTS)
    others = texts.filter(~is_lines)
    modules = others.select("id", name=pl.lit("module"), value=text.str.extract(DRIVER_MODULE_PATTERN)).drop_nulls()
    named = [
        modules,
        _named(lines, "="),
        _named(others.select("id", part=separated).with_columns(pl.col("part").list.eval(_if_pair())), ":"),
    ]
    return pairs_of_named(pl.concat(named))


def _if_pair() -> pl.Expr:
    part = pl.element()
    return part.filter(part.str.contains(r"^\w+:"))


def _named(parts: pl.DataFrame, separator: str) -> pl.DataFrame:
    """Split lists of parts into names and values."""
    pieces = pl.col("part").str.splitn(separator, 2).struct
    return (
        parts.explode("part", empty_as_null=True)
        .drop_nulls("part")
        .select("id", name=pieces.field("field_0"), value=pieces.field("field_1").fill_null(""))
    )


def pairs_of_named(named: pl.DataFrame) -> pl.DataFrame:
    """Give attributes of texts their keys and types.

    Args:
        named: Of NAMED_SCHEMA.

    Returns:
        A table of PAIR_SCHEMA; what no key is for keeps its name.
    """
    is_ranges = pl.col("name") == _RANGES
    ranges = named.filter(is_ranges)
    value = pl.col("value")
    pairs = (
        named.filter(~is_ranges)
        .with_columns(key=pl.col("name").replace_strict(KEY_OF_NAME, default=0, return_dtype=pl.UInt16))
        .with_columns(number=_numbers(pl.col("key"), value))
        .select("id", "key", "number", value="value", name="name")
    )
    typed = pairs.select(
        "id",
        "key",
        pl.when(pl.col("key") == 0).then("name").alias("other"),
        "number",
        # A spelling that is not ours must come out again as it went in.
        pl.when(_spelled(pl.col("key"), pl.col("number")).eq_missing(value)).then(None).otherwise(value).alias("text"),
    )
    return pl.concat([typed, *_range_pairs(ranges)]) if len(ranges) else typed


def _of_type(*types: AttributeType) -> list[int]:
    return [int(attribute.key) for attribute in ATTRIBUTES if attribute.type in types]


def _numbers(key: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Return the values of keys whose values are numbers; null where they are none, and of other keys."""
    digits = pl.when(value.str.contains("^[0-9]{1,20}$")).then(value).cast(pl.UInt64, strict=False)
    is_hexadecimal = value.str.contains("^(?:0x)?[0-9a-f]{1,16}$")
    hexadecimals = (
        pl.when(is_hexadecimal)
        .then(value.str.strip_prefix("0x"))
        .str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    )
    percent = pl.when(value.str.contains(r"^[0-9]{1,9}(?:\.[0-9]{1,18})?$")).then(value).cast(pl.Float64, strict=False)
    return (
        pl.when(key.is_in(_of_type(AttributeType.NUMBER)))
        .then(digits)
        .when(key.is_in(_of_type(AttributeType.ADDRESS, AttributeType.CHECKSUM)))
        .then(hexadecimals)
        .when(key.is_in(_of_type(AttributeType.PERCENT)))
        .then((percent * _MILLION).round().cast(pl.UInt64, strict=False))
        .when(key.is_in(_of_type(AttributeType.SWITCH)))
        .then(pl.when(value.is_in(["0", "1"])).then(value).cast(pl.UInt64, strict=False))
        .when(key.is_in(_of_type(AttributeType.TRUTH)) & (value == "true"))
        .then(pl.lit(1, dtype=pl.UInt64))
    )


def _spelled(key: pl.Expr, number: pl.Expr) -> pl.Expr:
    """Return numbers as texts spell them, by the types of their keys."""
    is_percent = key.is_in(_of_type(AttributeType.PERCENT))
    decimals = (number % _MILLION).cast(pl.String).str.zfill(6)
    digits = hexadecimal(number)
    address = pl.concat_str(pl.lit("0x"), digits.str.strip_chars_start("0"))
    return (
        pl.when(is_percent)
        .then(pl.concat_str((number // _MILLION).cast(pl.String), pl.lit("."), decimals))
        .when(key.is_in(_of_type(AttributeType.ADDRESS)))
        .then(pl.when(number == 0).then(pl.lit("0")).otherwise(address))
        .when(key.is_in(_of_type(AttributeType.CHECKSUM)))
        .then(digits)
        .when(key.is_in(_of_type(AttributeType.TRUTH)))
        .then(pl.when(number == 1).then(pl.lit("true")))
        .otherwise(number.cast(pl.String))
    )


def _range_pairs(ranges: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the pairs that stand for texts of ranges of bytes."""
    found = ranges.with_columns(part=pl.col("value").str.extract_all("[0-9]{1,19}-[0-9]{1,19}"))
    ends = pl.col("part").str.splitn("-", 2).struct
    each = found.explode("part", empty_as_null=True).drop_nulls("part").select(
        "id", first=ends.field("field_0"), last=ends.field("field_1")
    )  # fmt: skip
    # Text that was cut off may end anywhere.
    is_more = pl.col("part").list.join(",") != pl.col("value")
    more = found.filter(is_more).select("id", value=pl.lit("1"))

    def pairs(frame: pl.DataFrame, column: str, key: AttributeKey) -> pl.DataFrame:
        return frame.select(
            "id",
            pl.lit(int(key), dtype=pl.UInt16).alias("key"),
            pl.lit(None, dtype=pl.String).alias("other"),
            pl.col(column).cast(pl.UInt64, strict=False).alias("number"),
            pl.lit(None, dtype=pl.String).alias("text"),
        )

    return [
        pairs(each, "first", AttributeKey.RANGE_FIRST),
        pairs(each, "last", AttributeKey.RANGE_LAST),
        pairs(more, "value", AttributeKey.HAS_MORE_RANGES),
    ]


def named_texts(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return pairs as texts spell them.

    Args:
        pairs: Of PAIR_SCHEMA.

    Returns:
        A table of NAMED_SCHEMA, in the same order.
    """
    name = pl.col("key").replace_strict(_NAME_OF_KEY, default=pl.col("other"), return_dtype=pl.String)
    value = pl.coalesce("text", _spelled(pl.col("key"), pl.col("number")), pl.lit(""))
    return pairs.select("id", name=name, value=value)


def attribute_table(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Make columns of pairs.

    Args:
        parts: Of PAIR_SCHEMA; all pairs of one id stand in one of them.

    Returns:
        A table of ATTRIBUTE_SCHEMA. Of a key that an id has twice the first value counts.
    """
    return pl.concat([ATTRIBUTE_SCHEMA.to_frame(), *map(_columns_of, parts)])


def table_of_texts(texts: pl.DataFrame) -> pl.DataFrame:
    """Return texts as `pairs_of_texts` takes them, as a table of ATTRIBUTE_SCHEMA."""
    return attribute_table(pairs_of_texts(part) for part in texts.iter_slices(_CHUNK))


def in_chunks(ids: pl.Series) -> Iterable[pl.Series]:
    """Yield as many ids at a time as are to be taken apart at once."""
    for begin in range(0, len(ids), _CHUNK):
        yield ids.slice(begin, _CHUNK)


def _columns_of(pairs: pl.DataFrame) -> pl.DataFrame:
    of_keys = pairs.partition_by("key", as_dict=True)
    table = pairs.select(pl.col("id").unique(maintain_order=True))
    for attribute in ATTRIBUTES:
        if attribute.column in ATTRIBUTE_SCHEMA and (of_key := of_keys.get((attribute.key,))) is not None:
            values = of_key.select("id", _value(attribute.type).alias(attribute.column)).unique("id", keep="first")
            table = table.join(values, on="id", how="left", maintain_order="left")
    if any((key,) in of_keys for key in (AttributeKey.RANGE_FIRST, AttributeKey.RANGE_LAST)):
        table = table.join(_ranges(pairs), on="id", how="left", maintain_order="left")
    table = table.rename({"id": "attribute_id"})
    missing = [
        pl.lit(None, dtype=dtype).alias(name) for name, dtype in ATTRIBUTE_SCHEMA.items() if name not in table.columns
    ]
    return table.with_columns(missing).select(ATTRIBUTE_SCHEMA.names()).cast(ATTRIBUTE_SCHEMA)


def _value(kind: AttributeType) -> pl.Expr:
    number = pl.col("number")
    if kind is AttributeType.TEXT:
        return pl.col("text")
    if kind is AttributeType.CHECKSUM:
        return pl.coalesce("text", hexadecimal(number))
    if kind is AttributeType.PERCENT:
        return number.cast(pl.Float64) / _MILLION
    return number == 1 if kind in {AttributeType.SWITCH, AttributeType.TRUTH} else number


def _ranges(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return `id` and `ranges` of the ids that have any."""
    first, last = (
        pairs.filter(pl.col("key") == key).select("id", place=pl.int_range(pl.len()).over("id"), **{name: "number"})
        for key, name in ((AttributeKey.RANGE_FIRST, "first"), (AttributeKey.RANGE_LAST, "last"))
    )
    both = first.join(last, on=["id", "place"], maintain_order="left")
    return both.group_by("id").agg(pl.struct("first", "last").alias("ranges"))
