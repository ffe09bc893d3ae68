"""The Attr column of dumps, by name and never by position.

Two forms: `{allocation_id:4,addr:0x…,size:64}` of CSV files, which knows no escaping, and
`{"allocation_id":"4","addr":"0x…","size":"64"}` of DB files. Older tools break the second where a value holds a colon.
Without its quotes, the text is the first form again.

Almost every row begins with the same three attributes, and the rest repeats except for running totals. So the begin and
the totals are taken apart as whole columns. The rest is taken apart once per different text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

import polars as pl

from msmemscope.formats.attributes import DRIVER_MODULE_PATTERN
from msmemscope.formats.dump.vocabulary import POOL_OF_WORD
from msmemscope.formats.interning import LocalTexts, local_texts
from msmemscope.model.events import EventFlag

_STATISTIC: Final = r'^\s*"?(?:pinned|total|used|process_used|device_used)"?:\s*"?\w+"?\s*(?:,|\}?$)'
_STATISTICS_KEPT: Final = ("total", "used", "process_used", "device_used")
_MOST_STATISTICS: Final = 16
"""That are taken out of one text, in which each stands once; what a damaged one has more of stays in it."""
_WORTH_A_COLUMN: Final = ("allocation_id", "addr", "size", "streamId", "taskId")
_ANYWHERE: Final = '(?:^|[{{,])\\s*"?{key}"?:\\s*"?({value})"?\\s*(?:,|\\}}|$)'

_NEXT_KEY: Final = re.compile(r",\s*(?=\w+:)")
_BYTES: Final = re.compile("[0-9]{1,18}")
_OWNER: Final = re.compile(r"(?:^|,)\s*owner:")
_MODULE: Final = re.compile(DRIVER_MODULE_PATTERN)
# Owner labels are free text: they end only where an attribute begins that stands behind them.
_KEYS_BEHIND_OWNER: Final = ("inefficient", "inefficient_type", "page_type", "alloc_type", "MID")
_BEHIND_OWNER: Final = re.compile(rf",\s*(?=(?:{'|'.join(_KEYS_BEHIND_OWNER)}):)")


@dataclass(frozen=True)
class AttributeColumns:
    """The Attr column of some rows, taken apart."""

    numbers: pl.DataFrame
    """`allocation_id`, `streamId`, `taskId` (u64), `size`, `total`, `used`, `process_used`, `device_used` (i64) and `addr`
    (text), null where not said; `pinned` (bool)."""
    rest: LocalTexts
    """The rest of each text, for `parse_rest`."""


class Rest(NamedTuple):
    """One text of `AttributeColumns.rest`, taken apart."""

    flags: int
    pool: int
    """Of an ACCESS; 0 if it does not say."""
    owner: str
    attribute: str
    """All that is no column of its own, in the form of the event log: `key:value,key:value`. Of the owner there is only
    what the allocator knows: `CANN@RUNTIME`."""
    function: str
    """Of an OOM: what failed."""
    asked_bytes: int
    """Of an OOM."""
    pairs: tuple[tuple[str, str], ...]
    """The names and values that make up `attribute`; the module of the driver as `module`."""


def attribute_columns(column: pl.Series) -> AttributeColumns:
    """Take a column of attributes apart.

    Args:
        column: Texts in either form; null where there are none.
    """
    is_json = column.str.starts_with('{"').fill_null(value=False)
    parts = column.str.splitn(",", 4).struct.rename_fields(["first", "second", "third", "rest"]).struct.unnest()
    parts = parts.with_columns(
        *(pl.col(name).str.replace_all('"', "", literal=True) for name in ("first", "second", "third"))
        if is_json.any()
        else ()
    )
    first, second, third = pl.col("first"), pl.col("second"), pl.col("third")
    block = _after(first, "{allocation_id:").cast(pl.UInt64, strict=False)
    size = _after(third.str.strip_suffix("}"), "size:").cast(pl.Int64, strict=False)
    is_block = block.is_not_null() & second.str.starts_with("addr:0x") & size.is_not_null()
    stream = _after(first, "{streamId:").cast(pl.UInt64, strict=False)
    task = _after(second.str.strip_suffix("}"), "taskId:").cast(pl.UInt64, strict=False)
    is_task = stream.is_not_null() & task.is_not_null() & third.is_null()
    frame = (
        parts.lazy()
        .with_columns(is_block=is_block.fill_null(value=False), is_task=is_task.fill_null(value=False))
        .select(
            "is_block",
            "is_task",
            pl.when("is_block").then(block).alias("allocation_id"),
            pl.when("is_block").then(size).alias("size"),
            # The address stands in the Ptr column too.
            pl.lit(None, dtype=pl.String).alias("addr"),
            pl.when("is_task").then(stream).alias("streamId"),
            pl.when("is_task").then(task).alias("taskId"),
            pl.when("is_block").then("rest").alias("rest"),
        )
        .collect()
    )
    # `{}` is nothing.
    is_other = ~frame["is_block"] & ~frame["is_task"] & (column.str.len_bytes() > 2).fill_null(value=False)  # noqa: PLR2004
    if is_other.any():
        frame = _with_others(frame, column, is_other)
    frame = _with_statistics(frame)
    # Which form it is must be known where the rest is parsed; of the first form the closing brace is not part.
    plain = pl.col("rest").str.strip_suffix("}")
    text = pl.when(pl.lit(is_json) & (plain != "")).then(pl.concat_str(pl.lit("{"), "rest")).otherwise(plain)
    rest = local_texts(frame.select((text if is_json.any() else plain).alias("rest")).to_series())
    return AttributeColumns(frame.select(*_WORTH_A_COLUMN, *_STATISTICS_KEPT, "pinned"), rest)


def _after(text: pl.Expr, prefix: str) -> pl.Expr:
    """Return what stands behind a prefix; null where the text does not begin with it."""
    return pl.when(text.str.starts_with(prefix)).then(text.str.slice(len(prefix)))


def _with_others(frame: pl.DataFrame, column: pl.Series, is_other: pl.Series) -> pl.DataFrame:
    """Fill in the rows that begin in another way, by searching each attribute by its name."""
    text = pl.col("text")

    def found(key: str, value: str) -> pl.Expr:
        return text.str.extract(_ANYWHERE.format(key=key, value=value), 1)

    others = pl.DataFrame({"text": column.filter(is_other)}).select(
        found("allocation_id", r"\d+").cast(pl.UInt64, strict=False).alias("allocation_id"),
        found("size", r"-?\d+").cast(pl.Int64, strict=False).alias("size"),
        found("addr", r"(?:0x)?[0-9a-fA-F]+").alias("addr"),
        found("streamId", r"\d+").cast(pl.UInt64, strict=False).alias("streamId"),
        found("taskId", r"\d+").cast(pl.UInt64, strict=False).alias("taskId"),
        _without_columns(text).alias("rest"),
    )
    return _with_some_rows(frame, is_other, others)


def _with_some_rows(frame: pl.DataFrame, chosen: pl.Series, values: pl.DataFrame) -> pl.DataFrame:
    """Return a frame in which the chosen rows have other values, null included."""
    places = pl.int_range(len(frame), dtype=pl.UInt32, eager=True).filter(chosen)
    return frame.with_columns(frame[name].scatter(places, values[name]) for name in values.columns)


def _without_columns(text: pl.Expr) -> pl.Expr:
    """Remove the attributes that have columns of their own, and the opening brace."""
    keys = "|".join(_WORTH_A_COLUMN)
    # The comma behind goes with the attribute; one that is left at the end has lost its attribute.
    cut = text.str.strip_prefix("{").str.replace_all(
        rf'(^|,)\s*"?(?:{keys})"?:\s*"?-?\w+"?\s*(?P<end>,|\}}|$)', "${1}${end}"
    )
    # Neighbours share a comma, so every second one is left: once more takes those.
    cut = cut.str.replace_all(rf'(^|,)\s*"?(?:{keys})"?:\s*"?-?\w+"?\s*(?P<end>,|\}}|$)', "${1}${end}")
    return cut.str.replace_all(r",{2,}", ",").str.strip_prefix(",").str.replace(r",(\}?)$", "$1")


def _with_statistics(frame: pl.DataFrame) -> pl.DataFrame:
    """Take the running totals out of the begin of the rest, one after the other."""
    nothing = {name: pl.lit(None, dtype=pl.Int64) for name in _STATISTICS_KEPT}
    frame = frame.with_columns(**nothing, pinned=pl.lit(value=False))
    for _ in range(_MOST_STATISTICS):
        rest = frame["rest"]
        chosen = rest.str.contains(_STATISTIC).fill_null(value=False)
        if not chosen.any():
            return frame
        pair = pl.col("pair").str.strip_suffix("}").str.replace_all('"', "", literal=True)
        pairs = (
            rest.filter(chosen)
            .str.splitn(",", 2)
            .struct.rename_fields(["pair", "behind"])
            .struct.unnest()
            .with_columns(pair.alias("pair"))
        )
        before = frame.filter(chosen).select(*_STATISTICS_KEPT, "pinned")
        parsed = pl.concat([pairs, before], how="horizontal").select(
            pl.col("behind").fill_null("").alias("rest"),
            *(
                pl.coalesce(_after(pl.col("pair"), f"{name}:").cast(pl.Int64, strict=False), name).alias(name)
                for name in _STATISTICS_KEPT
            ),
            (pl.col("pinned") | (pl.col("pair") == "pinned:true")).alias("pinned"),
        )
        frame = _with_some_rows(frame, chosen, parsed)
    return frame


def parse_rest(text: str) -> Rest:
    """Return the attributes in the rest of an Attr, once per different text.

    Args:
        text: Of `AttributeColumns.rest`: `key:value,...`, or a JSON object.
    """
    pairs = _pairs(text)
    flags = int(EventFlag.SHADOW) if pairs.pop("shadow", "") == "true" else 0
    pool = POOL_OF_WORD.get(pairs.pop("type", "").upper(), 0)
    owner = pairs.pop("owner", "")
    # A finding of an analysis is no fact of the run.
    pairs.pop("inefficient_type", None)
    pairs.pop("inefficient", None)
    function = pairs.get("func", "")
    asked = pairs.get("req_size", "")
    module = _MODULE.match(owner)
    attribute = ",".join([*([module[0]] if module else []), *(f"{key}:{value}" for key, value in pairs.items())])
    named = (*([("module", module[1])] if module else []), *pairs.items())
    return Rest(flags, pool, owner, attribute, function, int(asked) if _BYTES.fullmatch(asked) else 0, named)


def _pairs(text: str) -> dict[str, str]:
    if text.startswith("{"):
        try:
            # `{` and text never make another JSON value than an object.
            found = {
                _without_halves(key): _without_halves(value if isinstance(value, str) else json.dumps(value))
                for key, value in json.loads(text).items()
            }
        except (ValueError, RecursionError):
            return _plain_pairs(text.removeprefix("{").removesuffix("}").replace('"', ""))
        return _joined_owner(found)
    return _plain_pairs(text)


def _without_halves(text: str) -> str:
    """Return a text without halves of letters, which JSON can name and no table can hold."""
    return text.encode(errors="replace").decode()


def _joined_owner(found: dict[str, str]) -> dict[str, str]:
    """Give owner labels back what older tools take for attributes: a comma, text, and a colon within a label."""
    pairs: dict[str, str] = {}
    for key, value in found.items():
        if "owner" in pairs and key not in _KEYS_BEHIND_OWNER:
            pairs["owner"] += f",{key}:{value}"
        else:
            pairs[key] = value
    return pairs


def _plain_pairs(text: str) -> dict[str, str]:
    before, owner, behind = text, "", ""
    match = _OWNER.search(text)
    if match:
        before = text[: match.start()]
        owner, _, behind = _split_once(_BEHIND_OWNER, text[match.end() :])
    pairs: dict[str, str] = {}
    for part in [*_NEXT_KEY.split(before), *_NEXT_KEY.split(behind)]:
        key, colon, value = part.strip().partition(":")
        if colon:
            pairs[key] = value
    if owner:
        pairs["owner"] = owner
    return pairs


def _split_once(pattern: re.Pattern[str], text: str) -> tuple[str, str, str]:
    match = pattern.search(text)
    return (text, "", "") if match is None else (text[: match.start()], match[0], text[match.end() :])
