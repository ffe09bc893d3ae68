"""The blocks around a moment, and the history of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.agent.bounded_answer import OfRecording
from msmemscope.agent.parameters import PATH, PROCESS, Parameter
from msmemscope.agent.tool import Tool
from msmemscope.errors import UsageError
from msmemscope.launch.faults import faults_as_errors
from msmemscope.model.devices import device_name, parse_device_name
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.timeline import blocks_in_use

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.agent.loaded_recordings import LoadedRecordings
    from msmemscope.recording import Recording

_ADDRESS: Final = "address"
_MOMENTS: Final = ("sequence", "time_ns", "step", _ADDRESS)
_MOST_BITS: Final = 64
_SHOWN: Final = (
    "address", "size", "device", "pool", "malloc_sequence", "free_sequence", "allocated_ns", "freed_ns",
    "name", "site", "owner", "thread_id", "python_stack_id", "native_stack_id",
    "free_thread_id", "free_python_stack_id", "free_native_stack_id",
)  # fmt: skip


def block_tools() -> list[Tool]:
    """Return `blocks_around`."""
    return [
        Tool(
            "blocks_around",
            "The blocks around a moment: in_use (the largest first), allocated and freed (the nearest first), and totals by "
            "pool. The moment is the number of an event, a time, or a step (then allocated and freed during it, and in use "
            "at its end). With an address instead: the history of this address, every block that it was part of, in order.",
            (
                PATH,
                PROCESS,
                Parameter(
                    "sequence",
                    "The number of an event: the ID of dumps, a *_sequence of results.",
                    {"type": "integer", "minimum": 0},
                ),
                Parameter("time_ns", "Nanoseconds since 1970 (CLOCK_REALTIME).", {"type": "integer", "minimum": 0}),
                Parameter("step", "The number of a step.", {"type": "integer"}),
                Parameter(
                    _ADDRESS, "An address, as hexadecimal text (0x...) or as a number.", {"type": ["string", "integer"]}
                ),
                Parameter("device", "Only blocks of this device: cpu, npu:{id}, cuda:{id}.", {"type": "string"}),
            ),
            _blocks,
        )
    ]


def _blocks(recordings: LoadedRecordings, given: Mapping[str, Any]) -> object:
    named = [name for name in _MOMENTS if name in given]
    if len(named) != 1:
        message = f"{'no moment is' if not named else ' and '.join(named) + ' are'} named"
        raise UsageError(message, accepted=f"one of {', '.join(_MOMENTS)}")
    recording = recordings.one(given["path"], given.get("process"))
    with faults_as_errors(during=f"blocks_around of {recording.source}", send=recording.source):
        blocks = _of_device(recording, given.get("device"))
        if named == [_ADDRESS]:
            content = _history(recording, blocks, _address(given[_ADDRESS]))
        elif named == ["step"]:
            content = _during(recording, blocks, given["step"])
        else:
            content = _around(recording, blocks, _moment(recording, named[0], given[named[0]]))
    return OfRecording({"process_id": recording.process_id, **content}, recording)


def _of_device(recording: Recording, device: str | None) -> pl.DataFrame:
    if device is None:
        return recording.blocks
    number = parse_device_name(device)
    known = recording.blocks["device"].unique().sort().to_list()
    if number not in known:
        message = "no memory of this device was recorded"
        raise UsageError(message, option="device", value=device, accepted=", ".join(map(device_name, known)) or "none")
    return recording.blocks.filter(pl.col("device") == number)


def _address(given: str | int) -> int:
    message = "no address"
    accepted = "0x and hexadecimal digits, or a number from 0 on"
    try:
        # As a result has it; a text without 0x is more likely copied from somewhere else in hexadecimal than counted.
        address = int(given, 16) if isinstance(given, str) else given
    except ValueError:
        raise UsageError(message, option=_ADDRESS, value=str(given), accepted=accepted) from None
    if address < 0 or address.bit_length() > _MOST_BITS:
        raise UsageError(message, option=_ADDRESS, value=str(given)[:80], accepted=accepted)
    return address


def _moment(recording: Recording, name: str, value: int) -> int:
    """The event that a moment is right after.

    Raises:
        UsageError: It lies before the first event, or behind the last.
    """
    column = recording.events["sequence" if name == "sequence" else "timestamp_ns"]
    if column.is_empty() or not _least(column) <= value <= _most(column):
        message = "outside of what was recorded"
        accepted = "nothing, there are no events" if column.is_empty() else f"{_least(column)} to {_most(column)}"
        raise UsageError(message, option=name, value=str(value), accepted=accepted)
    # Clocks of threads are read in another order than the numbers of their events are drawn: the last one counts.
    return _most(recording.events.filter(column <= value)["sequence"])


def _least(column: pl.Series) -> int:
    """The least of some numbers; there is at least one."""
    return int(column.to_numpy().min())


def _most(column: pl.Series) -> int:
    return int(column.to_numpy().max())


def _around(recording: Recording, blocks: pl.DataFrame, moment: int) -> dict[str, object]:
    event = recording.events.filter(pl.col("sequence") == moment)
    return {
        "sequence": moment,
        "time_ns": event["timestamp_ns"][0] if event.height else None,
        **_in_use(recording, blocks, moment),
        "allocated": _listed(recording, _nearest(blocks, "malloc_sequence", moment)),
        "freed": _listed(recording, _nearest(blocks, "free_sequence", moment)),
    }


def _during(recording: Recording, blocks: pl.DataFrame, number: int) -> dict[str, object]:
    steps = recording.steps.filter(pl.col("number") == number)
    if steps.is_empty():
        known = recording.steps["number"]
        accepted = f"{_least(known)} to {_most(known)}" if len(known) else "none, the program has no steps"
        message = "no such step"
        raise UsageError(message, option="step", value=str(number), accepted=accepted)
    begin, end = steps["begin_sequence"][0], steps["end_sequence"][0]
    last = _most(recording.events["sequence"]) if end is None else int(end)
    allocated = blocks.filter(pl.col("malloc_sequence").is_between(begin, last))
    freed = blocks.filter(pl.col("free_sequence").is_between(begin, last))
    return {
        "step": number,
        "begin_sequence": begin,
        "end_sequence": end,
        **_in_use(recording, blocks, last),
        "allocated": _listed(recording, allocated.sort("size", descending=True, maintain_order=True)),
        "freed": _listed(recording, freed.sort("size", descending=True, maintain_order=True)),
    }


def _in_use(recording: Recording, blocks: pl.DataFrame, moment: int) -> dict[str, object]:
    in_use = blocks_in_use(blocks, moment)
    totals = in_use.group_by("device", "pool").agg(blocks=pl.len(), bytes=pl.col("size").sum()).sort("device", "pool")
    return {
        "in_use_by_pool": totals,
        "in_use": _listed(recording, in_use.sort("size", descending=True, maintain_order=True)),
    }


def _history(recording: Recording, blocks: pl.DataFrame, address: int) -> dict[str, object]:
    begin = pl.col("address")
    # Blocks end at most at the largest number, and sizes of damaged logs can be negative.
    asked = pl.lit(address, pl.UInt64)
    offset = asked - begin
    parts = blocks.filter((begin <= asked) & (offset < pl.col("size").clip(lower_bound=1).cast(pl.UInt64)))
    return {"asked_address": f"0x{address:016x}", "blocks": _listed(recording, parts)}


def _nearest(blocks: pl.DataFrame, column: str, moment: int) -> pl.DataFrame:
    number = pl.col(column)
    distance = pl.when(number > moment).then(number - moment).otherwise(moment - number)
    return blocks.filter(number.is_not_null()).sort(distance, maintain_order=True)


def _listed(recording: Recording, blocks: pl.DataFrame) -> pl.DataFrame:
    """The columns that describe blocks, with their call sites."""
    sites = call_sites(recording, blocks).drop("site_path")
    return blocks.join(sites, on=list(STACK_COLUMNS), how="left", maintain_order="left").select(_SHOWN)
