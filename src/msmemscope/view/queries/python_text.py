"""The short programs that get with `msmemscope` in Python what a view shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msmemscope.view.queries.process_view import PoolView, ProcessView, Window


def _program(process: ProcessView, *lines: str, uses_polars: bool = True) -> str:
    facts = process.facts
    source = repr(facts["source"])
    read = (
        f"recording = next(one for one in msmemscope.load_all({source}) if one.process_id == {facts['process_id']})"
        if facts.get("is_one_of_several")
        else f"recording = msmemscope.load({source})"
    )
    imports = ["import polars as pl", ""] if uses_polars else [""]
    return "\n".join(["import msmemscope", *imports, read, *lines, ""])


def _of_pool(pool: PoolView) -> str:
    facts = pool.facts
    return f'(pl.col("device") == {facts["device_number"]}) & (pl.col("pool") == {facts["pool_number"]})'


def _alive(first: int, last: int) -> str:
    """The blocks in use right after some event between two."""
    return f'(pl.col("malloc_sequence") <= {last}) & (pl.col("free_sequence").is_null() | (pl.col("free_sequence") > {first}))'


def timeline_text(pool: PoolView, window: Window) -> str:
    """Return the program that gets memory over time."""
    first, last = (pool.process.sequence(row) for row in (window.first_row, window.last_row))
    return _program(
        pool.process,
        f'timeline = recording.timeline(pool="{pool.facts["word"]}", device="{pool.facts["device"]}")',
        f'timeline = timeline.filter(pl.col("sequence").is_between({first}, {last}))',
    )


def blocks_text(pool: PoolView, first_row: int, last_row: int) -> str:
    """Return the program that gets the blocks that are in use in a window."""
    first, last = (pool.process.sequence(row) for row in (first_row, last_row))
    return _program(
        pool.process,
        f"blocks = recording.blocks.filter({_of_pool(pool)})",
        f"blocks = blocks.filter({_alive(first, last)})",
    )


def allocated_text(pool: PoolView, first_row: int, last_row: int) -> str:
    """Return the program that gets the blocks that were allocated behind one row up to another."""
    first, last = (pool.process.sequence(row) for row in (first_row, last_row))
    return _program(
        pool.process,
        f"blocks = recording.blocks.filter({_of_pool(pool)})",
        f'blocks = blocks.filter((pl.col("malloc_sequence") > {first}) & (pl.col("malloc_sequence") <= {last}))',
    )


def leaked_text(pool: PoolView) -> str:
    """Return the program that gets the blocks that leaked."""
    return _program(
        pool.process,
        "from msmemscope.analysis.weights.measures import leaked_blocks",
        "",
        f"blocks = recording.blocks.filter({_of_pool(pool)} & leaked_blocks(recording))",
    )


def block_text(process: ProcessView, sequence: int) -> str:
    """Return the program that gets one block."""
    return _program(
        process, f'block = recording.blocks.row(by_predicate=pl.col("malloc_sequence") == {sequence}, named=True)'
    )


def segments_text(process: ProcessView, sequence: int) -> str:
    """Return the program that gets how the reserve is cut up at a moment."""
    return _program(
        process,
        "from msmemscope.analysis.fragmentation.fragmentation import find_fragmentation",
        "",
        f"segments = find_fragmentation(recording, {sequence}).segments",
        uses_polars=False,
    )


def operators_text(process: ProcessView, window: Window) -> str:
    """Return the program that gets the operators of a window."""
    first, last = (process.sequence(row) for row in (window.first_row, window.last_row))
    return _program(
        process,
        f'operators = recording.operators.filter(pl.col("begin_sequence").is_between({first}, {last}))',
    )


def events_text(process: ProcessView) -> str:
    """Return the program that gets all events."""
    return _program(process, "events = recording.events", uses_polars=False)


def all_blocks_text(process: ProcessView) -> str:
    """Return the program that gets all blocks."""
    return _program(process, "blocks = recording.blocks", uses_polars=False)
