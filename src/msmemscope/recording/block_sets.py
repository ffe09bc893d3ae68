"""The parts of a set of blocks: by operator, by source line, by module of the driver.

Sums are exact: blocks that are not listed by name are in `other`, and listed and other together are the total.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.events import EventFlag
from msmemscope.recording.source_lines import line_and_library

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTSIDE_OPERATORS = "(outside operators)"
"""Label of blocks that no operator allocated."""

UNKNOWN_MODULE = "(unknown module)"
"""Label of blocks of the driver that name no module."""

NO_PYTHON_STACK = "(no Python stack)"
"""Label of blocks allocated where no Python stack was taken, such as threads of native libraries."""

BEFORE_RECORDING: Final = "(allocated before recording began)"
"""Label of blocks without a stack that were there already when recording began."""


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of a set of blocks that has one label."""

    label: str
    size_bytes: int
    block_count: int


@dataclasses.dataclass(frozen=True)
class Ranking:
    """A set of blocks by label: the largest by name, the rest as one."""

    shares: tuple[Share, ...]
    """Descending by size, then by label."""
    other: Share | None
    """Everything that is not in `shares`; None if that is nothing."""

    def lines(self) -> tuple[Share, ...]:
        """Return all shares, the rest as the last."""
        return self.shares if self.other is None else (*self.shares, self.other)

    def first(self, count: int) -> tuple[Share, ...]:
        """Return so many shares; where there are more, the last is all the rest together."""
        lines = self.lines()
        if len(lines) <= count:
            return lines
        rest = lines[max(count - 1, 0) :]
        sizes, blocks = sum(share.size_bytes for share in rest), sum(share.block_count for share in rest)
        return (*lines[: max(count - 1, 0)], Share("(others)", sizes, blocks))[:count]


@dataclasses.dataclass(frozen=True)
class BlockSet:
    """The parts of a set of blocks of one pool."""

    size_bytes: int
    block_count: int
    by_operator: Ranking
    by_source_line: Ranking
    by_module: Ranking | None = None
    """Memory of the driver: by the module of CANN that asked for it; None for other pools."""

    def rankings(self, *, by_operator: bool = True) -> Iterator[tuple[str, Ranking]]:
        """Yield the rankings worth showing, each with its heading; a driver's block has a module and no operator.

        That by operator is not worth it where no operator is known of any block.
        """
        if self.by_module is not None:
            yield "by module", self.by_module
        elif by_operator and [share.label for share in self.by_operator.lines()] != [OUTSIDE_OPERATORS]:
            yield "by operator", self.by_operator
        yield "by source line", self.by_source_line


def describe_blocks(
    blocks: pl.DataFrame, source_lines: pl.DataFrame, limit: int, modules: pl.DataFrame | None = None
) -> BlockSet:
    """Sum up a set of blocks by operator, by source line and by module; arguments as for `find_peaks`.

    Lines are those of the program: their calls in libraries are not told apart.
    """
    operators = _sums(blocks, "name").with_columns(pl.col("name").fill_null(OUTSIDE_OPERATORS).alias("label"))
    of_program = source_lines.with_columns(
        pl.Series("text", [line_and_library(text)[0] for text in source_lines["text"]], pl.String)
    )
    is_older = (pl.col("flags") & EventFlag.SHADOW) != 0
    unknown = pl.when("is_older").then(pl.lit(BEFORE_RECORDING)).otherwise(pl.lit(NO_PYTHON_STACK))
    lines = (
        _sums(blocks.with_columns(is_older=is_older), "python_stack_id", "is_older")
        .join(of_program, left_on="python_stack_id", right_on="id", how="left")
        .with_columns(pl.coalesce("text", unknown).alias("label"))
    )
    return BlockSet(
        size_bytes=int(blocks.get_column("size").sum()),
        block_count=blocks.height,
        by_operator=_rank(operators, limit),
        by_source_line=_rank(lines, limit),
        by_module=_by_module(blocks, modules, limit),
    )


def _by_module(blocks: pl.DataFrame, modules: pl.DataFrame | None, limit: int) -> Ranking | None:
    if modules is None or not blocks.get_column("attribute_id").is_in(modules.get_column("id").implode()).any():
        return None
    sums = _sums(blocks, "attribute_id").join(modules, left_on="attribute_id", right_on="id", how="left")
    return _rank(sums.with_columns(pl.col("text").fill_null(UNKNOWN_MODULE).alias("label")), limit)


def _sums(blocks: pl.DataFrame, *keys: str) -> pl.DataFrame:
    return blocks.group_by(keys).agg(
        pl.col("size").sum().alias("size_bytes"), pl.len().cast(pl.Int64).alias("block_count")
    )


def _rank(sums: pl.DataFrame, limit: int) -> Ranking:
    totals = (
        sums.group_by("label")
        .agg(pl.col("size_bytes").sum(), pl.col("block_count").sum())
        .sort(["size_bytes", "label"], descending=[True, False])
    )
    # One more line by name takes no more room than saying "1 other".
    listed = totals if totals.height <= limit + 1 else totals.head(limit)
    rest = totals.slice(listed.height)
    shares = tuple(Share(*row) for row in listed.select("label", "size_bytes", "block_count").iter_rows())
    if rest.height == 0:
        return Ranking(shares, None)
    other = Share(f"({rest.height} others)", int(rest["size_bytes"].sum()), int(rest["block_count"].sum()))
    return Ranking(shares, other)
