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
_MOST_DIGITS: Final = 18


@dataclasses.dataclass(frozen=True)
class BlockLives:
    """Of each block, in the order in which they were given."""

    outlives_a_step: _Numbers
    """It was there beyond the step that it was allocated in."""
    is_short: _Numbers
    """Of a program with steps: it saw the end of one step at most, and others have ended without it."""
    outlives_two_steps: _Numbers
    """It saw the ends of two steps or more."""


def program_end(facts: Mapping[str, tuple[str, ...]]) -> int:
    """Return the sequence number that the first event after the end of a program has at least; 0 if that is not known.

    Args:
        facts: Of its recording.
    """
    text = (facts.get("process.ended_at") or ("",))[-1]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0


def block_lives(
    blocks: Mapping[str, _Numbers],
    marked: pl.DataFrame,
    strings: Mapping[int, str],
    attributes_of: AttributesOf,
    ended_at: int = 0,
) -> BlockLives:
    """Count the ends of steps that blocks saw.

    An optimizer steps, and a module returns, before a step of the program is over: blocks that the calling function
    holds are gone soon. So where steps are taken from these, a block must meet one of three conditions:

    - It sees two ends.
    - It is held until there is another one of its size.
    - It is held until the program ends.

    Args:
        blocks: `sequence` and `freed`, the sequence numbers of MALLOC and FREE, the latter 0 if there was none; `device`
            and `size`.
        marked: The events of STEP_KINDS, of EVENT_SCHEMA.
        strings: String id to text.
        attributes_of: Looks attributes up.
        ended_at: Of `program_end`.
    """
    names = marked["name_id"].unique()
    texts = pl.DataFrame({"id": names, "text": [strings.get(name, "") for name in names]}, schema=STRING_SCHEMA)
    source, steps = find_steps(marked, texts, attributes_of(marked["attribute_id"]))
    begins = blocks["sequence"]
    until = np.where(blocks["freed"] == 0, _NEVER, blocks["freed"])
    stays = until == _NEVER
    if ended_at:
        stays = (begins < ended_at) & (until >= ended_at)
    seen, ended = np.zeros(len(begins), np.int64), np.zeros(len(begins), np.int64)
    outlives = np.zeros(len(begins), np.bool_)
    for bounds, is_member in bounds_of(steps.drop_nulls("end_sequence")).groups(pl.Series(blocks["device"])):
        rows = np.flatnonzero(is_member.to_numpy())
        last = bounds.ends_before(until[rows])
        seen[rows], ended[rows] = last - bounds.ends_before(begins[rows]), bounds.ended
        outlives[rows] = seen[rows] > 0
        if source.is_implied:
            once = np.flatnonzero(seen[rows] == 1)
            after = bounds.ends[last[once] - 1]
            outlives[rows[once]] = stays[rows[once]] | _are_followed(blocks, rows[once], after)
            if ended_at and bounds.ended:
                outlives[rows] |= stays[rows]
    return BlockLives(outlives, (seen <= 1) & (ended > seen), seen > 1)


def _are_followed(blocks: Mapping[str, _Numbers], rows: _Numbers, after: _Numbers) -> _Numbers:
    """Return of some blocks whether another one of the size was allocated between an event and their end.

    Args:
        blocks: As above.
        rows: Of the blocks.
        after: The sequence number of the event, for each.
    """
    if len(rows) == 0:
        return np.zeros(0, np.bool_)
    _, kinds = np.unique(blocks["size"], return_inverse=True)
    begins, ends = blocks["sequence"], blocks["freed"]
    # Blocks are in the order of their allocations: a kind and a row are one number.
    order = np.argsort(kinds, kind="stable")
    moments = np.searchsorted(begins, after, side="right")  # the first block after the event
    keys = kinds[order] * (len(begins) + 1) + order
    following = np.searchsorted(keys, kinds[rows] * (len(begins) + 1) + moments)
    is_there = following < len(order)
    following = order[np.minimum(following, len(order) - 1)]
    return np.asarray(is_there & (kinds[following] == kinds[rows]) & (begins[following] < ends[rows]))
