"""Summaries of ranks by hand: for answers about jobs larger than any test could run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msmemscope.cluster.summary import summary_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

MIB = 1 << 20


def rank_row(
    rank: int | None,
    *,
    peak: int = 100 * MIB,
    coordinates: Mapping[str, int] | None = None,
    steps: Sequence[int] = (),
    **values: Any,
) -> dict[str, Any]:
    """The values of one rank. Its memory is of one owner and of one line unless others are given.

    Args:
        rank: The rank of the process; None for a process without one.
        peak: Bytes in use at most.
        coordinates: Axis to index.
        steps: The peaks of its steps.
        values: Further columns of `summary.SUMMARY_SCHEMA`.
    """
    return {
        "source": f"/job/{rank}",
        "fingerprint": f"{rank}",
        "form": "event log",
        "process_id": 1000 + (rank or 0),
        "program": "train.py",
        "rank": rank,
        "coordinates": [{"axis": axis, "index": index} for axis, index in (coordinates or {}).items()],
        "event_count": 10,
        "block_count": 5,
        "device": "npu:0",
        "pool": "PTA",
        "used_bytes": peak,
        "peak_bytes": peak,
        "peak_step": 1,
        "owners": [{"owner": "PTA@model@weight", "bytes": peak, "blocks": 1}],
        "sites": [
            {"hash": "aa", "site": "train.py(1): build", "owner": "PTA@model@weight", "bytes": peak, "blocks": 1}
        ],
        "stacks": [{"hash": "aa", "frames": "train.py(1): build\ntrain.py(9)"}],
        "steps_ended": len(steps),
        "steps": [
            {"first": number, "last": number, "peak_bytes": size, "end_bytes": size}
            for number, size in enumerate(steps, 1)
        ],
        "findings": [],
        "problems": [],
        **values,
    }


def rank_table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Summaries as one table."""
    return summary_row([dict(row) for row in rows])


def leak(size: int, site: str = "train.py(7): keep", *, growth: int = 0) -> dict[str, Any]:
    """A finding."""
    return {
        "kind": "leak", "site": site, "bytes": size, "blocks": 4, "growth_bytes": growth, "text": "in steps 2 to 9", "held_by": "",
    }  # fmt: skip
