"""Memory snapshots of torch: for pytorch.org/memory_viz, Mosaic and the functions of `torch.cuda._memory_viz`.

The fields are those of `torch.cuda.memory._snapshot` (its docstring, and torch/csrc/cuda/Module.cpp of torch 2.13):

- `segments`, with their blocks at the end;
- `device_traces`, with what happened;
- `allocator_settings`;
- `external_annotations`, which are steps and ranges here.

In a history, `size` is the requested size of a block. Where a recording does not know that, `size` is the block's size.
`msmemscope.history_sizes` says so to our own reader.

A snapshot holds one memory pool per device: PyTorch's caching allocator, where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.formats.export.pickle_stream import PickleStream
from msmemscope.formats.export.snapshot_entries import DevicePool, SnapshotEntries
from msmemscope.formats.export.snapshot_segments import is_mapped, segments_of, with_possible_addresses
from msmemscope.formats.export.tracks import NO_TIMES, Clock, pool_name, range_slices, step_slices
from msmemscope.formats.output_place import Mark
from msmemscope.formats.torch_snapshot.our_fields import HISTORY_SIZES, OF_BLOCKS, OF_REQUESTS, OUR_KEY
from msmemscope.model.devices import DEVICES_PER_KIND, KIND_NAMES, is_accelerator, kind_of
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.formats.export.export_choice import ExportChoice, Write
    from msmemscope.recording import Recording

SNAPSHOT_MARK: Final = Mark(near_begin=OUR_KEY.encode(), begin=b"\x80\x02}X\x0a\x00\x00\x00")
"""A pickle of protocol 2, of a dictionary whose first key is ours."""
_PREFERRED_POOLS: Final = (
    Pool.CUDA, Pool.PTA, Pool.MIND_SPORE, Pool.ATB, Pool.PTA_WORKSPACE, Pool.HOST, Pool.HAL,
)  # fmt: skip


def write_torch_snapshot(recording: Recording, write: Write, choice: ExportChoice) -> tuple[str, ...]:
    """Write a memory snapshot."""
    clock = Clock.of(recording)
    pools, left_out = _device_pools(recording)
    stream = PickleStream(write)
    stream.begin_dict()
    stream.value(OUR_KEY)
    stream.begin_dict()
    stream.value("title")
    stream.value(choice.title)
    stream.set_item()
    stream.value(HISTORY_SIZES)
    knows_requests = any(pool.blocks["requested_bytes"].is_not_null().any() for pool in pools)
    stream.value(OF_REQUESTS if knows_requests else OF_BLOCKS)
    stream.set_item()
    entries = SnapshotEntries(stream, recording, pools)
    stream.set_item()
    stream.value("segments")
    stream.begin_list()
    for pool in pools:
        entries.write_segments(pool)
    stream.set_item()
    stream.value("device_traces")
    stream.begin_list()
    of_index = {pool.index: pool for pool in pools}
    for index in range(max(of_index, default=0) + 1):
        stream.begin_list()
        if index in of_index:
            entries.write_history(of_index[index], clock)
        stream.append()
    stream.set_item()
    stream.value("allocator_settings")
    stream.value(_settings(recording, pools))
    stream.set_item()
    stream.value("external_annotations")
    stream.begin_list()
    for annotation in _annotations(recording, clock, min(of_index, default=0)):
        stream.value(annotation)
        stream.append()
    stream.set_item()
    stream.finish()
    return left_out if clock.has_times else (*left_out, NO_TIMES)


def _device_pools(recording: Recording) -> tuple[list[DevicePool], tuple[str, ...]]:
    """Return the pool of each device that is exported, and a line for each that is not."""
    blocks, _ = owned_blocks(recording)
    blocks = with_possible_addresses(blocks.filter(pl.col("size") > 0))
    pairs = blocks.select("device", "pool").unique().sort("device", "pool").rows()
    devices = sorted({device for device, _ in pairs})
    accelerators = [device for device in devices if is_accelerator(device)]
    chosen = accelerators or devices
    first_kind = chosen[0] // DEVICES_PER_KIND if chosen else 0
    used: set[int] = set()
    found, taken = [], set()
    for device in chosen:
        # Devices of another kind stand behind those of the first.
        is_first_kind = device >= 0 and device // DEVICES_PER_KIND == first_kind
        index = device % DEVICES_PER_KIND if is_first_kind else max(used, default=-1) + 1
        used.add(index)
        others = (pool for other, pool in pairs if other == device)  # of pools that only a damaged recording has
        pool = next((pool for pool in _PREFERRED_POOLS if (device, pool) in pairs), None) or next(others)
        taken.add((device, pool))
        own = blocks.filter((pl.col("device") == device) & (pl.col("pool") == pool))
        found.append(DevicePool(index, device, own, segments_of(recording, own, device)))
        if pool != Pool.HAL:
            taken.add((device, Pool.HAL))  # in part: its segments
    left_out = [pool_name(*pair) for pair in pairs if pair not in taken]
    lines = (f"a snapshot holds one pool per device: {', '.join(left_out)} left out",) if left_out else ()
    return found, lines


def _settings(recording: Recording, pools: Iterable[DevicePool]) -> dict[str, Any]:
    """Return the known facts of the allocator: its environment variable, which tells readers the kind of devices."""
    grows = any(is_mapped(recording, pool.segments.of_driver).any() for pool in pools)
    kinds = {kind for pool in pools if (kind := kind_of(pool.device)) is not None}
    variables = {KIND_NAMES[kind].allocator_variable: "" for kind in sorted(kinds)}
    return {**variables, "expandable_segments": grows} if kinds else {}


def _annotations(recording: Recording, clock: Clock, device: int) -> list[dict[str, Any]]:
    """Return where steps and ranges begin and end, in the order of time."""
    slices = pl.concat([table.select("begin", "end", "name") for table in _step_and_range_slices(recording, clock)])
    moments = pl.concat(
        [
            slices.select("name", sequence="begin", stage=pl.lit("START")),
            slices.select("name", sequence="end", stage=pl.lit("END")),
        ]
    ).sort("sequence", maintain_order=True)
    times = (clock.at(moments["sequence"]) // 1000).to_list()
    return [
        {"name": name, "stage": stage, "device": device, "time_us": time_us}
        for (name, stage), time_us in zip(moments.select("name", "stage").iter_rows(), times, strict=True)
    ]


def _step_and_range_slices(recording: Recording, clock: Clock) -> list[pl.DataFrame]:
    types = {"begin": pl.UInt64(), "end": pl.UInt64(), "name": pl.String()}
    tables = (step_slices(recording, clock), range_slices(recording, clock))
    return [table.select(types.keys()).cast(pl.Schema(types)) for table in tables]
