"""Rows of a dump, as texts, become rows of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.formats.dump.attribute_reader import attribute_columns
from msmemscope.formats.dump.columns import COLUMNS, INTEGERS
from msmemscope.formats.dump.vocabulary import DERIVED, UNKNOWN, device_of, kind_of
from msmemscope.formats.event_log.event_segments import MOST_BYTES
from msmemscope.formats.interning import LocalTexts, local_texts, without_unused
from msmemscope.formats.problems import Problems
from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE, NOT_AVAILABLE
from msmemscope.model.events import ACCESS_KINDS, MEMORY_KINDS, MSTX_KINDS, EventKind
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NULL_VALUES: Final = {"Process Id": NOT_AVAILABLE, "Thread Id": NOT_AVAILABLE}
"""The words that mean "no number" in them."""

TEXT_COLUMNS: Final = ("name", "rest", "python_stack", "native_stack")
"""Columns of `DumpPiece.rows` that are numbers of `DumpPiece.texts`."""

_RANGE_END_PREFIX: Final = "Range end from id "
_NO_STACK: Final = frozenset({"NA", NOT_AVAILABLE, ""})
_PADDED_DIGITS: Final = 16
_EXCERPT_CHARACTERS: Final = 80


@dataclass(frozen=True)
class DumpPiece:
    """Some rows of a dump."""

    rows: pl.DataFrame
    """One row per row that could be read; TEXT_COLUMNS are numbers of `texts`."""
    texts: dict[str, list[str]]
    """The texts of each of TEXT_COLUMNS, from 1."""
    problems: Problems
    """The parts that were skipped, and why."""
    unknown: dict[str, int]
    """Event and type of rows that are of no kind which is known, and how many there were."""


def text_columns(fields: Iterable[str]) -> list[str | None]:
    """Return the names in COLUMNS of a file's columns; None for a column of no dump.

    Args:
        fields: Names of columns in any case, with blanks around them.
    """
    known = {name.lower(): name for name in COLUMNS}
    # Files of microseconds had the same header; a file that says so in its header is welcome too.
    known["timestamp(us)"] = "Timestamp(ns)"
    names = [known.get(field.strip().lower()) for field in fields]
    return [name if name not in names[:place] else None for place, name in enumerate(names)]


def text_schema(columns: Sequence[str | None]) -> dict[str, pl.DataType]:
    """Return the types by which the columns of a file are read.

    Args:
        columns: Of the file in their order, as COLUMNS names them; None for others.
    """
    return {
        name or f"other {place}": pl.Int64() if name in INTEGERS else pl.String() for place, name in enumerate(columns)
    }


def excerpt(text: str) -> str:
    """Return the begin of a text, with all control characters escaped, for a message."""
    return repr(text if len(text) <= _EXCERPT_CHARACTERS else f"{text[:_EXCERPT_CHARACTERS]}...")


@dataclass(frozen=True)
class RowParts:
    """Rows of a dump whose texts have been taken apart, before their words are understood."""

    numbers: pl.DataFrame
    """Null stands for figures that the dump does not say.

    - i64: `sequence`, `timestamp_ns`, `allocation_id` (0: none), `size`, `total`, `used`, `process_used`, `device_used`;
    - u64: `extra`, `address`;
    - u32: `process_id`, `thread_id`;
    - bool: `pinned`.
    """
    words: LocalTexts
    """`Event/Event Type`."""
    device: LocalTexts
    name: LocalTexts
    rest: LocalTexts
    python_stack: LocalTexts
    native_stack: LocalTexts


def parse_piece(frames: Sequence[tuple[int, pl.DataFrame]], problems: Problems, *, place: str) -> DumpPiece:
    """Turn rows of texts into rows of numbers.

    Args:
        frames: Line (or row) number of the first row, and rows. The columns are COLUMNS; numbers (INTEGERS) are
            integers already.
        problems: The problems of reading the texts.
        place: The unit of the numbers: `line` or `row`.
    """
    tables = [frame.select(_present(frame)) for _, frame in frames]
    if not tables:
        return DumpPiece(pl.DataFrame(), {}, problems, {})
    table = pl.concat(tables, how="vertical")
    piece, reasons = piece_of_parts(_parts(table))
    if reasons is not None and reasons.null_count() < len(reasons):
        is_reported = reasons.is_not_null()
        lines = _numbers(table, frames, counts_lines=place == "line")
        named = is_reported.arg_true().head(problems.room)
        for line, why in zip(lines.gather(named), reasons.gather(named), strict=True):
            problems.add(f"{place} {line}: {why}")
        problems.count(int(is_reported.sum()) - len(named))
    return replace(piece, problems=problems)


def piece_of_parts(parts: RowParts) -> tuple[DumpPiece, pl.Series | None]:
    """Understand the words of rows.

    Returns:
        The rows, without those that lack what their kind must have. Then for each given row the reason why it was left
        out, null for most; None if no row was left out. Rows that repeat others, or that are of an unknown kind, are
        left out without a reason.
    """
    kinds = [UNKNOWN, *map(kind_of, parts.words.texts)]
    device_numbers = [DEVICE_NONE, *map(device_of, parts.device.texts)]
    kind = _gathered(parts.words, [entry.kind for entry in kinds], pl.UInt8())
    pool = _gathered(parts.words, [entry.pool for entry in kinds], pl.UInt8())
    device = _gathered(parts.device, device_numbers, pl.Int16())
    pinned = _gathered(parts.words, [entry.pinned for entry in kinds], pl.Boolean()) | parts.numbers["pinned"]
    is_memory = kind.is_in([*MEMORY_KINDS])
    pinned &= is_memory
    if pinned.any():
        pool, device = pool.set(pinned, int(Pool.HAL)), device.set(pinned, DEVICE_CPU)
    is_block = is_memory | kind.is_in([*ACCESS_KINDS])
    rows = parts.numbers.with_columns(
        kind.alias("kind"),
        pool.alias("pool"),
        device.alias("device"),
        # Other rows may have anything in this column.
        pl.col("address") if is_block.all() else pl.when(pl.lit(is_block)).then("address").alias("address"),
        pl.col("size").abs(),
        parts.rest.numbers.alias("rest"),
    )
    rows, names = _with_names(rows, parts.name)
    stacks = {"python_stack": _stack_texts(parts.python_stack), "native_stack": _stack_texts(parts.native_stack)}
    rows = rows.with_columns(*(stack.numbers.alias(name) for name, stack in stacks.items()))
    texts = {"name": names.texts, "rest": parts.rest.texts, **{name: stack.texts for name, stack in stacks.items()}}
    rows, reasons, unknown = _checked(rows, parts.words)
    return DumpPiece(rows, texts, Problems(), unknown), reasons


def _parts(table: pl.DataFrame) -> RowParts:
    words = local_texts(table.select(_words()).to_series())
    attributes = attribute_columns(table["Attr"])
    has_address = [kind_of(text).kind in (*MEMORY_KINDS, *ACCESS_KINDS) for text in words.texts]
    addressed = _gathered(words, [False, *has_address], pl.Boolean())
    numbers = table.select(
        pl.col("ID").cast(pl.UInt64, strict=False).alias("sequence"),
        pl.col("Timestamp(ns)").cast(pl.UInt64, strict=False).alias("timestamp_ns"),
        pl.col("Process Id").cast(pl.UInt32, strict=False).alias("process_id"),
        pl.col("Thread Id").cast(pl.UInt32, strict=False).fill_null(0).alias("thread_id"),
        pl.lit(_addresses(table["Ptr"], attributes.numbers["addr"], addressed)).alias("address"),
        pl.lit(attributes.numbers["size"]).alias("size"),
        pl.lit(attributes.numbers["allocation_id"].fill_null(0)).alias("allocation_id"),
        pl.lit(stream_and_task(attributes.numbers)).alias("extra"),
        *(pl.lit(attributes.numbers[name]).alias(name) for name in ("total", "used", "process_used", "device_used")),
        pl.lit(attributes.numbers["pinned"]).alias("pinned"),
    )
    return RowParts(
        numbers,
        words=words,
        device=local_texts(table["Device Id"]),
        name=local_texts(table["Name"]),
        rest=attributes.rest,
        python_stack=local_texts(table["Call Stack(Python)"]),
        native_stack=local_texts(table["Call Stack(C)"]),
    )


def _present(frame: pl.DataFrame) -> list[pl.Expr]:
    return [
        pl.col(name)
        if name in frame.columns
        else pl.lit(None, dtype=pl.Int64 if name in INTEGERS else pl.String).alias(name)
        for name in COLUMNS
    ]


def _words() -> pl.Expr:
    return pl.concat_str(pl.col("Event", "Event Type"), separator="/", ignore_nulls=True)


def _gathered(local: LocalTexts, values: Sequence[object], kind: pl.DataType) -> pl.Series:
    return pl.Series(values, dtype=kind).gather(local.numbers)


def _addresses(pointers: pl.Series, attributes: pl.Series, addressed: pl.Series) -> pl.Series:
    """Return addresses; null where there is none, or the row is of a kind that has none.

    With `0x` they are hexadecimal. Without, the age of the tool decides. They are decimal numbers, or digits that are
    padded to a fixed width or hold letters. The latter are hexadecimal, and then all of the piece are.
    """
    text = pl.when(pl.lit(pointers).is_null() | (pl.lit(pointers) == NOT_AVAILABLE)).then(pl.lit(attributes))
    texts = pl.select(text.otherwise(pl.lit(pointers)).alias("text")).to_series()
    texts = texts.set(~addressed, None)
    has_prefix = texts.str.starts_with("0x")
    bare = texts.filter(~has_prefix)
    is_hexadecimal = bare.str.contains("[a-fA-F]").any() or (
        not bare.is_empty() and bool((bare.str.len_bytes() == _PADDED_DIGITS).all())
    )
    hexadecimal = texts.str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    if is_hexadecimal or bare.is_empty():
        return hexadecimal
    decimal = texts.cast(pl.UInt64, strict=False)
    return pl.select(pl.when(has_prefix).then(hexadecimal).otherwise(decimal)).to_series()


def stream_and_task(numbers: pl.DataFrame) -> pl.Series:
    """Return what kernels have in `extra`."""
    if numbers["taskId"].null_count() == len(numbers):
        return pl.repeat(0, len(numbers), dtype=pl.UInt64, eager=True)
    return numbers.select(
        pl.col("streamId").fill_null(0) % (1 << 32) * (1 << 32) + pl.col("taskId").fill_null(0) % (1 << 32)
    ).to_series()


def _with_names(rows: pl.DataFrame, names: LocalTexts) -> tuple[pl.DataFrame, LocalTexts]:
    """Take names apart: of steps and ends of ranges they are numbers, and `N/A` is none."""
    kind = rows["kind"]
    is_step, is_range_end = kind == EventKind.STEP, kind == EventKind.RANGE_END
    is_number = is_step | is_range_end
    if is_number.any():
        own = names.numbers.filter(is_number)
        texts = pl.Series([None, *names.texts], dtype=pl.String).gather(own)
        places = is_number.arg_true()
        number = texts.str.strip_chars('"').str.strip_prefix(_RANGE_END_PREFIX).cast(pl.UInt64, strict=False)
        steps, ends = is_step.gather(places), is_range_end.gather(places)
        rows = rows.with_columns(
            rows["size"].scatter(places.filter(steps), number.filter(steps).cast(pl.Int64, strict=False)),
            rows["extra"].scatter(places.filter(ends), number.filter(ends).fill_null(0)),
        )
    is_none = kind.is_in([*MEMORY_KINDS]) | is_number
    if NOT_AVAILABLE in names.texts:
        is_absent = names.numbers == names.texts.index(NOT_AVAILABLE) + 1
        is_none |= is_absent & ~kind.is_in([*MSTX_KINDS])
    local = without_unused(LocalTexts(names.numbers.set(is_none, 0), names.texts))
    return rows.with_columns(local.numbers.alias("name")), local


def _stack_texts(local: LocalTexts) -> LocalTexts:
    """Return stacks without the quotes that databases of other tools leave around them."""
    texts = [_stack_text(text) for text in local.texts]
    if texts == local.texts:
        return local
    different = list(dict.fromkeys(text for text in texts if text))
    number_of = {text: number for number, text in enumerate(different, 1)}
    numbers = pl.Series([0, *(number_of.get(text, 0) for text in texts)], dtype=pl.UInt32)
    return LocalTexts(numbers.gather(local.numbers), different)


def _stack_text(text: str) -> str:
    text = text.replace("\r\n", "\n")
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        text = text[1:-1]
    if text.strip() in _NO_STACK:
        return ""
    return text if text.endswith("\n") else f"{text}\n"


def _checked(rows: pl.DataFrame, words: LocalTexts) -> tuple[pl.DataFrame, pl.Series | None, dict[str, int]]:
    """Leave out the rows that lack what their kind must have.

    Returns:
        The other rows. Then why each row was left out where that is worth telling, None if none was. Then the number of
        rows of each unknown kind.
    """
    kind = pl.col("kind")
    is_memory = kind.is_in([*MEMORY_KINDS])
    is_access = kind.is_in([*ACCESS_KINDS])
    is_left_out = kind.is_in([DERIVED.kind, EventKind.NONE])
    # Each in the order in which a row is checked.
    lacks = {
        "its ID is negative": pl.col("sequence").is_null(),
        "its Timestamp(ns) is negative": pl.col("timestamp_ns").is_null(),
        "its Device Id is no device": pl.col("device").is_null(),
        "its Ptr is no address": (is_memory | is_access) & pl.col("address").is_null(),
        "its Attr has a size that no memory has": (is_memory | is_access) & (pl.col("size") > MOST_BYTES),
        "its Attr has no size": ((kind == EventKind.MALLOC) | is_access) & pl.col("size").is_null(),
        "a MALLOC with the ID 0 cannot be referred to": (kind == EventKind.MALLOC) & (pl.col("sequence") == 0),
    }
    checks = rows.select(is_left_out.alias("left_out"), *(lack.alias(reason) for reason, lack in lacks.items()))
    kept = rows.with_columns(
        pl.col("size").fill_null(0), pl.col("address").fill_null(0), pl.col("device").cast(pl.Int16)
    )
    if not any(checks.select(pl.all().any()).row(0)):
        return kept, None, {}
    first_reason = pl.coalesce(pl.when(reason).then(pl.lit(reason)) for reason in lacks)
    reasons = checks.select(pl.when(~pl.col("left_out")).then(first_reason).alias("reason")).to_series()
    unknown = words.numbers.filter(rows["kind"] == EventKind.NONE).value_counts()
    counts = {words.texts[number - 1] if number else "": count for number, count in unknown.iter_rows()}
    return kept.filter(reasons.is_null() & ~checks["left_out"]), reasons, counts


def _numbers(table: pl.DataFrame, frames: Sequence[tuple[int, pl.DataFrame]], *, counts_lines: bool) -> pl.Series:
    """Return the number of each row, or of its first line."""
    breaks = pl.repeat(1, len(table), dtype=pl.Int64, eager=True)
    if counts_lines:
        texts = pl.col("Name", "Attr", "Call Stack(Python)", "Call Stack(C)")
        breaks += table.select(pl.sum_horizontal(texts.str.count_matches("\n", literal=True).fill_null(0))).to_series()
    numbers = []
    begin = 0
    for line, frame in frames:
        own = breaks.slice(begin, len(frame)).cast(pl.Int64)
        numbers.append(own.cum_sum() - own + line)
        begin += len(frame)
    line_numbers: pl.Series = pl.concat(numbers)
    return line_numbers
