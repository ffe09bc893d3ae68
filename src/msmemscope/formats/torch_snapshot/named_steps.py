"""Steps that the program of a memory snapshot names itself.

PyTorch has two ways to say where a program is:

- `external_annotations` of the snapshot: ranges of `record_function` and of its profiler (`ProfilerStep#12`), if the
  history was recorded with `global_record_annotations=True`.
- `user_metadata` of the entries of a history: the latest text of `torch.cuda.memory._set_memory_metadata`.

A text is a step if a number stands behind `step`, `iter` or `iteration`, and the numbers rise.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from msmemscope.model.events import EventKind
from msmemscope.recording.schema import EVENT_SCHEMA

_STEP: Final = re.compile(r"(?:^|[^a-z])(?:profilerstep|step|iter|iteration)\W{0,3}(\d{1,9})(?!\w)", re.IGNORECASE)
_LONGEST_TEXT: Final = 256
_FEWEST_STEPS: Final = 2
_MOST_MICROSECONDS: Final = (1 << 63) // 1000


class StepEnd(NamedTuple):
    """The end of a step."""

    number: int
    """As the program has it."""
    time_ns: int


def named_steps(content: Any, traces: list[Any]) -> list[StepEnd]:
    """Return where the steps of a snapshot end, in their order; none where its program names none.

    Args:
        content: The whole snapshot.
        traces: Its `device_traces`.
    """
    annotations = content.get("external_annotations") if isinstance(content, dict) else None
    ends = _of_annotations(annotations if isinstance(annotations, list) else [])
    if not _are_steps(ends):
        ends = max((_of_metadata(trace) for trace in traces), key=len, default=[])
    return ends if _are_steps(ends) else []


def with_steps(events: pl.DataFrame, ends: list[StepEnd]) -> pl.DataFrame:
    """Put a STEP event where each step ends.

    Args:
        events: EVENT_SCHEMA; every `extra` is a sequence number, or 0.
        ends: The result of `named_steps`.

    Returns:
        EVENT_SCHEMA, numbered anew. Steps count from 1, as everywhere here: a history may begin anywhere in a run.
    """
    if not ends or not events["timestamp_ns"].max():  # NPUs have no times
        return events
    times = np.maximum.accumulate(events["timestamp_ns"].to_numpy())
    end_times = np.array([end.time_ns for end in ends], dtype=np.uint64)
    # How many events each step has in front of its end, and how many ends are in front of each event.
    before = np.searchsorted(times, end_times, side="right")
    ends_before = np.searchsorted(before, np.arange(len(times)), side="right").astype(np.uint64)
    sequences = events["sequence"].to_numpy() + ends_before
    known = np.concatenate([np.zeros(1, np.uint64), sequences])
    moved = events.with_columns(sequence=pl.Series(sequences), extra=pl.Series(known[events["extra"].to_numpy()]))
    steps = pl.DataFrame(
        {
            "sequence": before.astype(np.uint64) + np.arange(1, len(ends) + 1, dtype=np.uint64),
            "kind": np.full(len(ends), int(EventKind.STEP)),
            "timestamp_ns": end_times,
            "size": np.arange(1, len(ends) + 1),
            "device": np.full(len(ends), events["device"][0]),
        }
    )
    absent = [pl.lit(0, dtype).alias(name) for name, dtype in EVENT_SCHEMA.items() if name not in steps.columns]
    steps = steps.with_columns(absent).select(EVENT_SCHEMA.names()).cast(EVENT_SCHEMA)
    return pl.concat([moved, steps]).sort("sequence")


def step_note(ends: list[StepEnd]) -> list[str]:
    """Return a sentence that tells the program's own numbers, if they are others than ours."""
    if not ends or ends[0].number == 1:
        return []
    return [f"steps as the program names them: step 1 here is its step {ends[0].number}"]


def _number(text: object) -> int | None:
    match = _STEP.search(text[:_LONGEST_TEXT]) if isinstance(text, str) else None
    return int(match[1]) if match else None


def _time_ns(entry: dict[str, Any]) -> int | None:
    time = entry.get("time_us")
    return time * 1000 if isinstance(time, int) and 0 <= time < _MOST_MICROSECONDS else None


def _of_annotations(annotations: list[Any]) -> list[StepEnd]:
    """Each device has its own; those of the first that has any count."""
    found: dict[object, list[StepEnd]] = {}
    for entry in annotations:
        if isinstance(entry, dict) and entry.get("stage") == "END":
            number, time_ns = _number(entry.get("name")), _time_ns(entry)
            device = entry.get("device")
            if number is not None and time_ns is not None and isinstance(device, int):
                found.setdefault(device, []).append(StepEnd(number, time_ns))
    return next(iter(found.values()), [])


def _of_metadata(trace: list[Any]) -> list[StepEnd]:
    """A step ends where the first entry of the next one is."""
    ends: list[StepEnd] = []
    running: int | None = None
    latest = None
    for entry in trace:
        text = entry.get("user_metadata") if isinstance(entry, dict) else None
        if not isinstance(text, str) or text == latest:
            continue
        latest = text
        number, time_ns = _number(text), _time_ns(entry)
        if number is None or time_ns is None:
            continue
        if running is not None and number != running:
            ends.append(StepEnd(running, max(time_ns - 1, 0)))
        running = number
    return ends


def _are_steps(ends: list[StepEnd]) -> bool:
    rises = all(one.number < other.number and one.time_ns <= other.time_ns for one, other in pairwise(ends))
    return len(ends) >= _FEWEST_STEPS and rises
