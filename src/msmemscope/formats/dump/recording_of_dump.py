"""From the rows of dump files to the tables that analyses work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from msmemscope.formats.attributes import NAMED_SCHEMA, attribute_table, in_chunks, pairs_of_named
from msmemscope.formats.dump.attribute_reader import parse_rest
from msmemscope.formats.interning import Interner, LocalTexts
from msmemscope.formats.problems import Problems
from msmemscope.model.events import ACCESS_KINDS, MEMORY_KINDS, EventFlag, EventKind
from msmemscope.model.pools import POOLS_WITH_RESERVE
from msmemscope.recording.block_pairing import block_sequences, outermost_operators, range_numbers
from msmemscope.recording.build_tables import build_blocks
from msmemscope.recording.recording import RECORDING_BLOCK_SCHEMA, Recording
from msmemscope.recording.schema import EVENT_SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.formats.dump.row_reader import DumpPiece

_MICROSECONDS: Final = (10**14, (1 << 63) // 1000)
"""Times since 1970 that make sense as microseconds (years 1973 to 2262) and not as nanoseconds (1970 to 1973)."""

_SYSTEM_KINDS: Final = (EventKind.ACL_INIT, EventKind.ACL_FINI, EventKind.START_TRACE, EventKind.STOP_TRACE)

_TOTALS: Final = ("total", "used", "process_used", "device_used")


class _Parsed(NamedTuple):
    """A `Rest` with ids in the place of texts."""

    flags: int
    pool: int
    owner_id: int
    attribute_id: int
    function_id: int
    asked_bytes: int


class DumpRowsOfProcesses:
    """Rows of one or more files, as they come; at the end one recording per process.

    Args:
        form: `csv` or `db`.
    """

    def __init__(self, form: str) -> None:
        self._form = form
        self._strings = Interner()
        self._owners = Interner()
        self._python_stacks = Interner()
        self._native_stacks = Interner()
        self._parsed: dict[str, _Parsed] = {}
        self._pairs: dict[int, tuple[tuple[str, str], ...]] = {}
        self._parts: list[pl.DataFrame] = []
        self._problems: list[str] = []
        self._unknown: dict[str, int] = {}

    def add(self, piece: DumpPiece) -> None:
        """Take in some rows."""
        for words, count in piece.unknown.items():
            self._unknown[words] = self._unknown.get(words, 0) + count
        if piece.rows.is_empty():
            return
        rows, texts = piece.rows, piece.texts

        def ids(column: str, interner: Interner) -> pl.Series:
            return interner.column(LocalTexts(rows[column], texts[column]))

        parsed = [self._parsed_from(text) for text in texts["rest"]]
        rest = rows["rest"]

        def of_rest(values: list[Any], dtype: pl.DataType) -> pl.Series:
            return pl.Series([0, *values], dtype=dtype).gather(rest)

        pools = of_rest([entry.pool for entry in parsed], pl.UInt8())
        functions = of_rest([entry.function_id for entry in parsed], pl.UInt32())
        asked = of_rest([entry.asked_bytes for entry in parsed], pl.Int64())
        is_oom = pl.col("kind") == EventKind.OOM
        self._parts.append(
            rows.select(
                *("sequence", "kind", "timestamp_ns", "process_id", "thread_id", "device", "address", "extra"),
                *("allocation_id", *_TOTALS),
                pl.when(pl.col("kind").is_in([*ACCESS_KINDS])).then(pl.lit(pools)).otherwise("pool").alias("pool"),
                pl.when(is_oom).then(pl.lit(asked)).otherwise("size").alias("size"),
                pl.when(is_oom).then(pl.lit(functions)).otherwise(pl.lit(ids("name", self._strings))).alias("name_id"),
                pl.lit(of_rest([entry.flags for entry in parsed], pl.UInt8())).alias("flags"),
                pl.lit(of_rest([entry.attribute_id for entry in parsed], pl.UInt32())).alias("attribute_id"),
                pl.lit(of_rest([entry.owner_id for entry in parsed], pl.UInt32())).alias("owner_id"),
                pl.lit(ids("python_stack", self._python_stacks)).alias("python_stack_id"),
                pl.lit(ids("native_stack", self._native_stacks)).alias("native_stack_id"),
            )
        )

    def _parsed_from(self, text: str) -> _Parsed:
        """Return the attributes in the rest of an Attr; pieces repeat the texts of each other."""
        known = self._parsed.get(text)
        if known is None:
            rest = parse_rest(text)
            known = _Parsed(
                rest.flags,
                rest.pool,
                self._owners.id_of(rest.owner),
                self._strings.id_of(rest.attribute),
                self._strings.id_of(rest.function),
                rest.asked_bytes,
            )
            self._parsed[text] = known
            self._pairs.setdefault(known.attribute_id, rest.pairs)
        return known

    def add_problem(self, line: str) -> None:
        """Note something that was skipped."""
        self._problems.append(line)

    def recordings(self, source: Path) -> tuple[Recording, ...]:
        """Return the rows that were read, by process.

        Args:
            source: The path that was given.
        """
        unknown = Problems(
            *(
                f"rows of unknown kind left out: {count} with Event/Event Type {words}"
                for words, count in self._unknown.items()
            )
        )
        problems = [*self._problems, *unknown.lines()]
        if not self._parts:
            return ()
        rows = pl.concat(self._parts)
        self._parts.clear()
        processes = rows["process_id"].value_counts(sort=True).drop_nulls()
        usual = int(processes["process_id"][0]) if len(processes) else 0
        if len(processes) <= 1:
            return (self._recording(source, usual, rows.drop("process_id"), problems),)
        rows = rows.with_columns(pl.col("process_id").fill_null(usual))
        order = rows["process_id"].unique(maintain_order=True).to_list()
        parts = {process: rows.filter(pl.col("process_id") == process).drop("process_id") for process in order}
        del rows
        return tuple(self._recording(source, process, part, problems) for process, part in parts.items())

    def _recording(self, source: Path, process_id: int, rows: pl.DataFrame, problems: list[str]) -> Recording:
        own_problems = list(problems)
        notes: list[str] = []
        rows = _in_order(rows, own_problems)
        rows = _in_nanoseconds(rows, notes)
        rows = _without_invented_frees(rows, notes)
        own = block_sequences(rows)
        is_about_block = pl.col("kind").is_in([EventKind.FREE, *ACCESS_KINDS])
        rows = rows.with_columns(extra=pl.when(is_about_block).then(pl.lit(own)).otherwise("extra"))
        del own
        rows = _with_ranges(rows)
        is_memory = pl.col("kind").is_in([*MEMORY_KINDS])
        rows = rows.with_columns(
            name_id=pl.when(is_memory).then(pl.lit(outermost_operators(rows))).otherwise("name_id"),
        )
        owners = rows.filter((pl.col("kind") == EventKind.MALLOC) & (pl.col("owner_id") != 0)).select(
            pl.col("sequence").alias("allocation_id"), "owner_id"
        )
        totals = _totals(rows)
        events = rows.select(EVENT_SCHEMA.names())
        del rows
        events = _with_sizes_of_frees(events)
        if not totals.is_empty():
            events = pl.concat([totals, events]).sort("sequence", maintain_order=True)
        strings = self._strings.frame()
        texts = pl.Series(self._owners.texts(), dtype=pl.String)
        owners = owners.select("allocation_id", pl.lit(texts).gather(pl.col("owner_id")).alias("owner"))
        attributes = self._attributes(events)
        blocks = build_blocks(events, strings, attributes).join(
            owners, on="allocation_id", how="left", maintain_order="left"
        )
        return Recording(
            source=str(source),
            form=self._form,
            process_id=process_id,
            events=events,
            blocks=blocks.select(RECORDING_BLOCK_SCHEMA.names()),
            strings=strings,
            python_stacks=self._python_stacks.frame(),
            native_stacks=self._native_stacks.frame(),
            coverage=tuple(notes),
            problems=tuple(own_problems),
            attributes=attributes,
        )

    def _attributes(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return the attributes of some events, as ATTRIBUTE_SCHEMA."""

        def pairs(ids: pl.Series) -> pl.DataFrame:
            rows = [(key, *pair) for key in ids for pair in self._pairs.get(key, ())]
            return pairs_of_named(pl.DataFrame(rows, schema=NAMED_SCHEMA, orient="row"))

        return attribute_table(map(pairs, in_chunks(events["attribute_id"].unique().sort())))


def _in_order(rows: pl.DataFrame, problems: list[str]) -> pl.DataFrame:
    """Return rows by rising ID, each once."""
    if not rows["sequence"].is_sorted():
        rows = rows.sort("sequence", maintain_order=True)
    is_repeated = (rows["sequence"] == rows["sequence"].shift(1)).fill_null(value=False)
    if not is_repeated.any():
        return rows
    # Events of no device stand in the file of every device.
    count = int((is_repeated & (rows["device"] != -1)).sum())
    if count:
        problems.append(f"rows with an ID that another row had before: {count}, left out")
    return rows.filter(~is_repeated)


def _in_nanoseconds(rows: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    usual = rows["timestamp_ns"].median()
    low, high = _MICROSECONDS
    if not isinstance(usual, float) or not low <= usual < high:
        return rows
    notes.append("times have a resolution of a microsecond: the file is of a tool that wrote microseconds")
    # A damaged row can have any time.
    return rows.with_columns(pl.col("timestamp_ns").clip(upper_bound=high - 1) * 1000)


def _without_invented_frees(rows: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """Leave out the FREE rows that other tools write at the end of a process for blocks that are still alive.

    They are shadow rows without totals, behind everything else. A shadow row without totals before that is of a block
    that was freed at a moment nobody saw.
    """
    is_invented = (
        (pl.col("kind") == EventKind.FREE)
        & (pl.col("flags") & int(EventFlag.SHADOW) != 0)
        & pl.col("used").is_null()
        & pl.col("total").is_null()
    )
    marked = rows.select(
        is_invented.alias("invented"),
        (is_invented | pl.col("kind").is_in([*_SYSTEM_KINDS])).reverse().cum_min().reverse().alias("last"),
    )
    invented = marked["invented"] & marked["last"]
    count = int(invented.sum())
    if count == 0:
        return rows
    notes.append(f"{count} blocks were alive at the end: the FREE rows that the tool wrote for them are not counted")
    return rows.filter(~invented)


def _with_ranges(rows: pl.DataFrame) -> pl.DataFrame:
    is_range = rows["kind"].is_in([EventKind.RANGE_START, EventKind.RANGE_END])
    if not is_range.any():
        return rows
    ranges = rows.lazy().filter(is_range).select("sequence", "kind", "device", "extra").collect()
    numbers = range_numbers(ranges).sort("sequence")["extra"]
    places = pl.int_range(len(rows), dtype=pl.UInt32, eager=True).filter(is_range)
    return rows.with_columns(rows["extra"].scatter(places, numbers))


def _with_sizes_of_frees(events: pl.DataFrame) -> pl.DataFrame:
    """Give each FREE the size of its block: not every tool writes it."""
    is_free = pl.col("kind") == EventKind.FREE
    if events.filter(is_free & (pl.col("size") == 0) & (pl.col("extra") != 0)).is_empty():
        return events
    sizes = events.filter(pl.col("kind") == EventKind.MALLOC).select(
        pl.col("sequence").alias("extra"), pl.col("size").alias("block_size")
    )
    return (
        events.join(sizes, on="extra", how="left", maintain_order="left")
        .with_columns(
            size=pl.when(is_free & (pl.col("size") == 0)).then(pl.col("block_size").fill_null(0)).otherwise("size")
        )
        .drop("block_size")
    )


def _totals(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the records of totals that the attributes of memory rows repeat: RESERVED and DEVICE_USAGE.

    Each stands before the row that told of it: with the number before, if no row has that, else with the same number.
    """
    parsed = rows.lazy().filter(
        pl.col("kind").is_in([*MEMORY_KINDS]) & pl.any_horizontal(pl.col(*_TOTALS).is_not_null())
    )
    reserved = _changes(
        parsed.filter(pl.col("pool").is_in([*POOLS_WITH_RESERVE]) & pl.col("total").is_not_null()), ["device", "pool"], ["total"]
    ).select(
        "sequence", "timestamp_ns", "thread_id", "device", "pool",
        pl.lit(int(EventKind.RESERVED), dtype=pl.UInt8).alias("kind"), pl.col("total").alias("size"),
        pl.lit(0, dtype=pl.UInt64).alias("extra"),
    )  # fmt: skip
    has_usage = pl.col("process_used").is_not_null() | pl.col("device_used").is_not_null()
    usage = _changes(parsed.filter(has_usage), ["device"], ["process_used", "device_used"]).select(
        "sequence", "timestamp_ns", "thread_id", "device", pl.lit(0, dtype=pl.UInt8).alias("pool"),
        pl.lit(int(EventKind.DEVICE_USAGE), dtype=pl.UInt8).alias("kind"),
        pl.col("device_used").fill_null(-1).alias("size"),
        # All ones say that it is not known.
        pl.col("process_used").cast(pl.UInt64).fill_null((1 << 64) - 1).alias("extra"),
    )  # fmt: skip
    totals = pl.concat([reserved, usage]).collect()
    if totals.is_empty():
        return EVENT_SCHEMA.to_frame()
    taken = rows["sequence"]
    before = totals["sequence"] - (totals["sequence"] > 0).cast(pl.UInt64)
    is_free = ~before.is_in(taken.implode()) & (before > 0)
    zeros = {name: pl.lit(0, dtype=dtype) for name, dtype in EVENT_SCHEMA.items() if name not in totals.columns}
    return (
        totals.with_columns(
            pl.when(pl.lit(is_free)).then(pl.lit(before)).otherwise("sequence").alias("sequence"), **zeros
        )
        .select(EVENT_SCHEMA.names())
        .sort("sequence", maintain_order=True)
    )


def _changes(rows: pl.LazyFrame, place: list[str], values: list[str]) -> pl.LazyFrame:
    """Return the rows whose values differ from those of the row before of the same place."""
    is_new = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1).over(place)) for name in values)
    is_first = pl.int_range(pl.len()).over(place) == 0
    return rows.filter(is_new | is_first)
