"""Words for the events in a region, shared by notebooks and tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    import polars as pl

    from msmemscope.analysis.window import PoolWindow
    from msmemscope.formats.event_log import Capture
    from msmemscope.integrations.observed_region import FailedAllocation
    from msmemscope.recording.block_sets import Ranking

LIMIT = 5
"""Source lines that are listed by name."""


def where(pool: PoolWindow) -> str:
    """Name the pool of a device: `npu:0 (PTA)`."""
    return f"{device_name(pool.device)} ({pool_word(pool.pool, pool.device)})"


def counted_blocks(count: int) -> str:
    """Write a number of blocks."""
    return f"{format_count(count)} block" if count == 1 else f"{format_count(count)} blocks"


def failure_text(failure: FailedAllocation, source_line: str) -> str:
    """Write which allocation failed for lack of memory, and where; the line as it is to be shown."""
    least = "at least " if failure.is_piece else ""
    device = device_name(failure.device)
    return f"out of memory on {device}: {least}{format_bytes(failure.size_bytes)} asked for at {source_line}"


def rank_source_lines(blocks: pl.DataFrame, capture: Capture, limit: int = LIMIT) -> Ranking:
    """Sum up blocks by the line of the program that allocated them.

    Args:
        blocks: Of `recording.BLOCK_SCHEMA`.
        capture: Where their stacks are looked up.
        limit: How many lines to list by name.
    """
    from msmemscope.recording.block_sets import describe_blocks
    from msmemscope.recording.source_lines import source_lines

    lines = source_lines(capture.python_stack_frame(blocks.get_column("python_stack_id")))
    return describe_blocks(blocks, lines, limit).by_source_line


def ranking_lines(ranking: Ranking, folder: str) -> list[str]:
    """Write a ranking as lines of text, sizes first.

    Args:
        ranking: By source line.
        folder: Paths inside it are shortened.
    """
    rows = [
        (format_bytes(share.size_bytes), counted_blocks(share.block_count), shortened(share.label, folder))
        for share in ranking.lines()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)] if rows else [0, 0]
    return [f"    {size:>{widths[0]}}  {blocks:>{widths[1]}}  {label}" for size, blocks, label in rows]


def shortened(label: str, folder: str) -> str:
    """Write a source line with its path as seen from a folder, if it lies inside."""
    prefix = folder.rstrip(os.sep) + os.sep
    return label.removeprefix(prefix)
