"""The reserve of a pool at a moment: segments, their blocks and gaps, and the block that pins each.

It is the answer of `analyze fragmentation`, for the few blocks that matter at the moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.fragmentation.fragmentation import find_fragmentation
from msmemscope.errors import MissingInputError
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, RECORDING_BLOCK_SCHEMA, STRING_SCHEMA, Recording
from msmemscope.reports.html.shown_text import shown
from msmemscope.view.index.ordered import count_up_to
from msmemscope.view.index.store import NEVER
from msmemscope.view.queries.frame import Frame
from msmemscope.view.queries.one_block import stack_text
from msmemscope.view.queries.python_text import segments_text

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.view.queries.process_view import PoolView, ProcessView

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_SEGMENT, _BLOCK, _GAP, _WAITING = range(4)
_NO_BLOCK: Final = -1
PART_SCHEMA: Final = pl.Schema(
    {
        "kind": pl.UInt8(),
        "segment": pl.UInt32(),
        "offset": pl.Int64(),
        "size": pl.Int64(),
        "block": pl.Int64(),
        "is_pin": pl.Boolean(),
    }
)
"""One row per segment, block or gap; see `api/segments` in ui/PROTOCOL.md."""


def segments_at(pool: PoolView, row: int) -> Frame:
    """Return how the reserve of the pools of a device is cut up right after a row.

    Raises:
        MissingInputError: No segments are known.
    """
    process, device = pool.process, pool.facts["device_number"]
    if not pool.facts["has_segments"]:
        message = "segments are not known: memory of the driver was not observed, or its blocks hold none of this pool"
        raise MissingInputError(message)
    numbers = _blocks_that_matter(process, device, row)
    blocks = _as_blocks(process, numbers)
    found = find_fragmentation(_recording(process, blocks, row), process.sequence(row), device=device)
    segments = found.segments
    bases = segments["address"].to_numpy()
    parts = [
        pl.DataFrame(
            {
                "kind": np.full(segments.height, _SEGMENT),
                "segment": np.arange(segments.height),
                "offset": np.zeros(segments.height, dtype=np.int64),
                "size": segments["size"],
                "block": np.full(segments.height, _NO_BLOCK),
                "is_pin": np.zeros(segments.height, dtype=np.bool_),
            }
        ).cast(PART_SCHEMA),
        _blocks_in(blocks, numbers, segments, process.sequence(row)),
        found.gaps.select(
            kind=pl.lit(_GAP),
            segment=pl.Series(np.searchsorted(bases, found.gaps["segment_address"].to_numpy())),
            offset=pl.col("address").cast(pl.Int64) - pl.col("segment_address").cast(pl.Int64),
            size="size",
            block=pl.lit(_NO_BLOCK),
            is_pin=pl.lit(value=False),
        ).cast(PART_SCHEMA),
    ]
    of_sequence = dict(zip(blocks["malloc_sequence"].to_list(), numbers.tolist(), strict=True))
    return Frame(
        {
            "segments": [_segment(one, of_sequence) for one in segments.iter_rows(named=True)],
            "totals": found.totals.row(0, named=True) if found.totals.height else {},
            "notes": [shown(note, 1000) for note in found.coverage],
            "python": segments_text(process, process.sequence(row)),
        },
        pl.concat(parts),
    )


def _segment(segment: dict[str, Any], of_sequence: dict[int, int]) -> dict[str, Any]:
    pin = None
    if segment["pin_sequence"] is not None:
        pin = {
            "block": of_sequence[segment["pin_sequence"]],
            "size": segment["pin_size"],
            "site": shown(segment["pin_site"] or ""),
            "is_freed": segment["pin_is_freed"],
            "age_ns": segment["pin_age_ns"],
        }
    sizes = {name: segment[name] for name in ("size", "in_use_bytes", "free_bytes", "largest_gap_bytes")}
    return {"address": hex(segment["address"]), **sizes, "pin": pin}


def _blocks_that_matter(process: ProcessView, device: int, row: int) -> Numbers:
    """The blocks of a device whose memory cannot be handed out right after a row, and one that lay in each of the driver's."""
    found = []
    returned, witnesses = process.index.get("blocks/returned_rows"), process.index.get("blocks/witnesses")
    for pool in process.pools:
        if pool.facts["device_number"] != device:
            continue
        held = pool.intervals.live.at(row)
        if pool.facts["has_waiting"]:
            begun = count_up_to(pool.intervals.begins, row)
            held = np.flatnonzero(returned[pool.blocks][:begun] > row)
        found.append(held + pool.blocks.start)
        if pool.facts["pool_number"] == Pool.HAL:
            known = witnesses[found[-1]]
            found.append(known[known != NEVER])
    return np.unique(np.concatenate(found)).astype(np.int64)


def _as_blocks(process: ProcessView, numbers: Numbers) -> pl.DataFrame:
    """Blocks as a recording has them."""
    index = process.index
    arrays = {
        name: index.get(f"blocks/{name}")[numbers]
        for name in (
            "sizes",
            "addresses",
            "sequences",
            "end_rows",
            "returned_rows",
            "requested",
            "stacks",
            "begin_rows",
            "pools",
        )
    }
    pools = pl.DataFrame(
        [(one.facts["device_number"], one.facts["pool_number"]) for one in process.pools],
        {"device": pl.Int16(), "pool": pl.UInt8()},
        orient="row",
    )[arrays["pools"]]
    sequences = index.get("events/sequences")
    begin_ns = process.facts["begin_ns"]
    times = process.positions(arrays["begin_rows"], process.axes[0]) + begin_ns
    stacks = arrays["stacks"]
    columns = {
        "malloc_sequence": arrays["sequences"],
        "allocation_id": arrays["sequences"],
        "address": arrays["addresses"],
        "size": arrays["sizes"],
        "device": pools["device"],
        "pool": pools["pool"],
        "allocated_ns": times if process.facts["has_times"] else np.zeros(len(numbers), dtype=np.int64),
        "free_sequence": _sequences(sequences, arrays["end_rows"]),
        "returned_sequence": _sequences(sequences, arrays["returned_rows"]),
        "requested_bytes": pl.Series(arrays["requested"]).replace(-1, None),
        "name_id": index.get("stacks/name_id")[stacks],
        "name": index.texts("stacks/operators").gather(stacks),
        "python_stack_id": index.get("stacks/python_stack_id")[stacks],
        "native_stack_id": index.get("stacks/native_stack_id")[stacks],
    }
    known = pl.DataFrame(columns)
    absent = {name: pl.lit(None, dtype=dtype) for name, dtype in RECORDING_BLOCK_SCHEMA.items() if name not in columns}
    return known.with_columns(**absent).select(RECORDING_BLOCK_SCHEMA.names()).cast(RECORDING_BLOCK_SCHEMA)


def _sequences(sequences: Numbers, rows: Numbers) -> pl.Series:
    """The events of rows, null for NEVER."""
    found = pl.Series(sequences[np.minimum(rows, len(sequences) - 1)])
    return pl.select(pl.when(pl.Series(rows != NEVER)).then(found)).to_series()


def _recording(process: ProcessView, blocks: pl.DataFrame, row: int) -> Recording:
    """A recording of some blocks, which knows their stacks and when the moment is."""
    axis = process.axes[0]
    now = {
        "sequence": process.sequence(row),
        "timestamp_ns": process.position(row, axis) + process.facts["begin_ns"] if process.facts["has_times"] else 0,
    }
    events = pl.DataFrame([{name: now.get(name, 0) for name in EVENT_SCHEMA.names()}], EVENT_SCHEMA)
    names = blocks.select(id="name_id", text="name").unique().drop_nulls()
    stacks = {
        kind: pl.DataFrame(
            [
                (identity, stack_text(process, kind, identity))
                for identity in blocks[f"{kind}_stack_id"].unique().to_list()
            ],
            STRING_SCHEMA,
            orient="row",
        )
        for kind in ("python", "native")
    }
    return Recording(
        source=process.facts["source"],
        form=process.facts["form"],
        process_id=process.facts["process_id"],
        events=events,
        blocks=blocks,
        strings=names.cast(STRING_SCHEMA),
        python_stacks=stacks["python"],
        native_stacks=stacks["native"],
        coverage=(),
        problems=(),
    )


def _blocks_in(blocks: pl.DataFrame, numbers: Numbers, segments: pl.DataFrame, sequence: int) -> pl.DataFrame:
    """The blocks of pools that lie in segments."""
    begins, sizes = segments["address"].to_numpy(), segments["size"].to_numpy()
    table = blocks.with_columns(block=pl.Series(numbers)).filter(
        (pl.col("pool") != Pool.HAL)
        & (pl.col("malloc_sequence") <= sequence)
        & (pl.col("returned_sequence").is_null() | (pl.col("returned_sequence") > sequence))
    )
    if not len(begins):
        return PART_SCHEMA.to_frame()
    addresses = table["address"].to_numpy()
    index = np.maximum(np.searchsorted(begins, addresses, side="right") - 1, 0)
    offsets = addresses.astype(np.int64) - begins[index].astype(np.int64)
    is_inside = (offsets >= 0) & (offsets < sizes[index])
    pins = segments["pin_sequence"]
    is_waiting = (pl.col("free_sequence") <= sequence).fill_null(value=False)
    return (
        table.with_columns(segment=pl.Series(index), offset=pl.Series(offsets))
        .filter(pl.Series(is_inside))
        .select(
            kind=pl.when(is_waiting).then(_WAITING).otherwise(_BLOCK),
            segment="segment",
            offset="offset",
            size="size",
            block="block",
            is_pin=pl.col("malloc_sequence").is_in(pins.drop_nulls().implode()),
        )
        .cast(PART_SCHEMA)
    )
