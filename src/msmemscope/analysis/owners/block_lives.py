"""How long blocks live, in ends of steps that they outlive."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.recording.recording import find_steps
from msmemscope.recording.schema import STRING_SCHEMA
from msmemscope.recording.step_bounds import bounds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    AttributesOf: TypeAlias = Callable[[pl.Series], pl.DataFrame]

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_NEVER: Final = np.iinfo(np.uint64).max
_ENDS_OF_IMPLIED_STEPS: Final = 2
"""An optimizer steps before its step of the program is over: what is still there once it steps again has outlived it."""


@dataclasses.dataclass(frozen=True)
class BlockLives:
    """Of each block, in the order in which they were given."""

    outlives_a_step: _Numbers
    """It was there beyond the step that it was allocated in."""
    is_short: _Numbers
    """Of a program with steps: it saw the end of one step at most, and others have ended without it."""
    outlives_two_steps: _Numbers
    """It saw the ends of two steps or more."""


def block_lives(
    blocks: Mapping[str, _Numbers], marked: pl.DataFrame, strings: Mapping[int, str], attributes_of: AttributesOf
) -> BlockLives:
    """Count the ends of steps that blocks saw.

    Args:
        blocks: `sequence` and `freed`, the sequence numbers of MALLOC and FREE, the latter 0 if there was none; `device`.
        marked: The events of STEP_KINDS, of EVENT_SCHEMA.
        strings: String id to text.
        attributes_of: Looks attributes up.
    """
    names = marked["name_id"].unique()
    texts = pl.DataFrame({"id": names, "text": [strings.get(name, "") for name in names]}, schema=STRING_SCHEMA)
    source, steps = find_steps(marked, texts, attributes_of(marked["attribute_id"]))
    ends, ended = np.zeros(len(blocks["sequence"]), np.int64), np.zeros(len(blocks["sequence"]), np.int64)
    until = np.where(blocks["freed"] == 0, _NEVER, blocks["freed"])
    for bounds, is_member in bounds_of(steps.drop_nulls("end_sequence")).groups(pl.Series(blocks["device"])):
        rows = is_member.to_numpy()
        ends[rows] = bounds.ends_before(until[rows]) - bounds.ends_before(blocks["sequence"][rows])
        ended[rows] = bounds.ended
    outlives = ends >= (_ENDS_OF_IMPLIED_STEPS if source.is_implied else 1)
    if source.is_implied:
        outlives |= (ends > 0) & (until == _NEVER)
    return BlockLives(outlives, (ends <= 1) & (ended > ends), ends > 1)
