"""Ranks against their peers: who has more or less in use at the peak than those that do the same work.

The test: how far a rank's peak is from the median of its peers, in units of their usual spread. The spread is the
median of the distances from the median (MAD), times 1.4826, as for a normal distribution. It counts as at least 1 MiB
and one percent of the median. Otherwise, among ranks that are alike to the byte, one that allocates a little more would
be an outlier. A rank more than 3.5 such spreads away is an outlier (Iglewicz and Hoaglin, How to Detect and Handle
Outliers, 1993: the modified z-score). With fewer than four peers a median says nothing about one of them, and nobody is
tested.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from msmemscope.cluster.answer.ranks import INDEX, JUDGED, MIB, PEERS

LEAST_PEERS: Final = 4
"""Ranks of a group, the one that is tested included."""
MOST_SPREADS: Final = 3.5
_NORMAL: Final = 1.4826
"""MAD to standard deviation, of a normal distribution."""
LEAST_SPREAD_BYTES: Final = MIB
LEAST_SPREAD_SHARE: Final = 0.01
TEST_WORDS: Final = (
    "an outlier is more than 3.5 spreads from the median of its peers (same role, pipeline stage and experts). "
    "A spread is 1.4826 times the median distance from the median, and at least 1 MiB and 1 % of the median. "
    "Groups of fewer than 4 ranks are not tested"
)

OUTLIER_SCHEMA: Final = pl.Schema(
    {
        INDEX: pl.UInt32(), PEERS: pl.String(), "peer_count": pl.Int64(), "peak_bytes": pl.Int64(), "median_bytes": pl.Int64(),
        "excess_bytes": pl.Int64(), "spreads": pl.Float64(),
    }
)  # fmt: skip
"""One row per outlier, the furthest first.

INDEX: its row; peer_count: ranks of its group without itself; excess_bytes: above the median, negative below it; spreads: how far.
"""


def find_outliers(rows: pl.DataFrame) -> pl.DataFrame:
    """Find the ranks that are unlike their peers.

    Args:
        rows: Of `ranks.rank_rows`.

    Returns:
        OUTLIER_SCHEMA.
    """
    peaks = rows.filter(JUDGED).select(INDEX, PEERS, "peak_bytes")
    median = pl.col("peak_bytes").median().over(PEERS)
    distance = (pl.col("peak_bytes") - pl.col("median_bytes")).abs()
    spread = pl.max_horizontal(
        _NORMAL * distance.median().over(PEERS),
        pl.lit(float(LEAST_SPREAD_BYTES)),
        LEAST_SPREAD_SHARE * pl.col("median_bytes"),
    )
    return (
        peaks.with_columns(median_bytes=median, peer_count=pl.len().over(PEERS).cast(pl.Int64))
        .with_columns(excess_bytes=pl.col("peak_bytes") - pl.col("median_bytes"), spread=spread)
        .with_columns(spreads=pl.col("excess_bytes").abs() / pl.col("spread"))
        .filter((pl.col("peer_count") >= LEAST_PEERS) & (pl.col("spreads") > MOST_SPREADS))
        .with_columns(pl.col("peer_count") - 1, pl.col("median_bytes", "excess_bytes").round().cast(pl.Int64))
        .sort(["spreads", INDEX], descending=[True, False])
        .select(OUTLIER_SCHEMA.names())
        .cast(OUTLIER_SCHEMA)
    )


def tested_groups(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the groups of peers: PEERS and `count` (u32), the largest first."""
    return rows.filter(JUDGED).group_by(PEERS).agg(count=pl.len()).sort(["count", PEERS], descending=[True, False])
