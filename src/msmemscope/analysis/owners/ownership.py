"""Who owns each block: one text per block, worked out after the fact from the recording.

An owner is a path in a tree, its parts joined by `@`, as MindStudio Insight knows it: `PTA@model@weight`,
`CANN@RUNTIME`, `PTA@ops@aten@my label`. Its parts in their order:

1. who allocated: `CANN@<module>` for memory of the driver, otherwise the pool (`PTA`, `PTA_WORKSPACE`, `ATB`,
   `MINDSPORE`, `HOST`, and `HOST@pinned` for pinned memory of the host);
2. labels that tools gave (`LabelLevel.COMPONENT` to `DETAIL_2`): those in force on the thread at the MALLOC, and those
   given to the block later. On one level the latest label counts, but a framework's name of its memory stays when a
   weight is found there. The label of the part of the model (`model@weight`) comes first;
3. for a tensor without such labels, one of five. It is `model@activation` if a forward pass made it for a backward
   pass. It is `model@gradient` if a backward pass made it and a later operator used it. It is `workspace` if cuBLAS
   works in it. It is `program` if it lived on over the end of a step. Otherwise it is `ops@aten` if an operator
   allocated or used it;
4. labels of the user (`LabelLevel.USER_1` to `USER_3`): those of the thread, then those given to the block.

An activation was saved by autograd, or meets three conditions:

- It was not allocated during a backward pass.
- An operator of a backward pass read it.
- No forward pass used it between two such reads, or it did not outlive the step after its own. In the latter case
  several backward passes of one step read it.

The third condition tells it from masks and tables, which the backward passes of many steps read. A checkpoint runs a
forward pass again in the middle of a backward pass. That is a forward pass to the blocks that it makes itself, and a
part of the backward pass to older blocks.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.owners.block_lives import block_lives, program_end
from msmemscope.analysis.owners.caches import CacheFinder
from msmemscope.analysis.owners.growing_table import GrowingTable
from msmemscope.analysis.owners.label_table import LabelTable
from msmemscope.analysis.owners.owner_text import OwnerTraits, owner_text
from msmemscope.analysis.owners.workspaces import WorkspaceFinder
from msmemscope.model.events import ACCESS_KINDS, EventFlag, EventKind
from msmemscope.model.labels import (
    MODEL_ACTIVATION,
    MODEL_WEIGHT,
    USER_LABELS_FACT,
    USER_LEVELS,
    LabelLevel,
    is_of_model,
)
from msmemscope.recording.recording import STEP_KINDS
from msmemscope.recording.schema import EVENT_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from msmemscope.formats.event_log import Capture

NO_ACCESSES: Final = (
    "activations: counted among the memory of operators, because no accesses of operators were recorded "
    "(--events=alloc,free,access,launch)"
)
"""The gap if operators were recorded but not their accesses."""

_FORWARD: Final = 1
_BACKWARD: Final = 2

AttributesOf: TypeAlias = "Callable[[pl.Series], pl.DataFrame]"
"""Takes attribute ids, and returns at least their rows of `recording.schema.ATTRIBUTE_SCHEMA`."""

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclasses.dataclass(frozen=True)
class Ownership:
    """The owner of every block of a process."""

    owners: pl.DataFrame
    """One row per MALLOC, in their order: `sequence` (u64), `owner` (an Enum of all owners that occur)."""
    coverage: tuple[str, ...]
    """The gaps of the recording, one line each."""


OWNER_KINDS: Final = (
    EventKind.MALLOC, EventKind.FREE, *STEP_KINDS, EventKind.OWNER, EventKind.ATEN_START, *ACCESS_KINDS,
)  # fmt: skip
"""Kinds of the events that owners are made of."""


LABEL_KINDS: Final = (EventKind.MALLOC, EventKind.OWNER)
"""Kinds of the events that have labels."""


def owners_of_capture(capture: Capture) -> Ownership:
    """Find the owner of every block that a capture holds."""
    batches = capture.restricted_to(OWNER_KINDS).event_batches()
    return find_owners(batches, capture.strings, capture.attribute_frame, program_end(capture.facts))


def labelled_blocks(capture: Capture) -> pl.DataFrame | None:
    """Return the blocks that the user has labelled, as `Ownership.owners`; None where nobody called `describer`."""
    if USER_LABELS_FACT not in capture.facts:
        return None
    finder = OwnerFinder(capture.strings, capture.attribute_frame)
    for batch in capture.restricted_to(LABEL_KINDS).event_batches():
        finder.add(batch)
    return finder.finish_labelled()


def find_owners(
    batches: Iterable[pl.DataFrame], strings: Mapping[int, str], attributes: AttributesOf, ended_at: int = 0
) -> Ownership:
    """Find the owner of every block in one pass, in memory that grows with the number of blocks.

    Args:
        batches: Parts of a table of `recording.EVENT_SCHEMA`, in sequence order.
        strings: String id to text; looked up once the last batch has been read.
        attributes: Looked up then too.
        ended_at: Of `program_end`.
    """
    finder = OwnerFinder(strings, attributes, ended_at)
    for batch in batches:
        finder.add(batch)
    return finder.finish()


class OwnerFinder:
    """Collects the parts of owners, batch by batch.

    For those who need the events for something else too; otherwise see `find_owners`.

    Args:
        strings: String id to text.
        attributes: Looks attributes up.
        ended_at: Of `program_end`.
    """

    def __init__(self, strings: Mapping[int, str], attributes: AttributesOf, ended_at: int = 0) -> None:
        """Start without blocks."""
        self._blocks = GrowingTable(
            {
                "sequence": np.uint64,
                "pool": np.uint8,
                "device": np.int16,
                "size": np.int64,
                "attribute_id": np.uint32,
                "is_of_operator": np.bool_,
                "is_of_forward": np.bool_,
                "is_of_backward": np.bool_,
                "is_used_later": np.bool_,
                "is_recomputed": np.bool_,
                "is_saved": np.bool_,
                "freed": np.uint64,
                "last_use": np.uint8,
                "backward_uses": np.uint8,
            }
        )
        self._strings = strings
        self._caches = CacheFinder(strings, self._blocks)
        self._workspaces = WorkspaceFinder(strings, self._blocks)
        self._labels = LabelTable(strings)
        self._attributes_of = attributes
        self._ended_at = ended_at
        self._marked = [EVENT_SCHEMA.to_frame()]
        self._has_operators = False
        self._has_accesses = False

    def add(self, batch: pl.DataFrame) -> None:
        """Take the next events in.

        Args:
            batch: Of EVENT_SCHEMA; batches must be given in order.
        """
        kind = pl.col("kind")
        self._add_blocks(batch.filter(kind == EventKind.MALLOC))
        self._add_frees(batch.filter(kind == EventKind.FREE))
        self._add_labels(batch.filter(kind == EventKind.OWNER))
        self._marked.append(batch.filter(kind.is_in([*STEP_KINDS])).select(EVENT_SCHEMA.names()))
        self._add_uses(batch.filter(kind.is_in([*ACCESS_KINDS])))
        self._has_operators = self._has_operators or bool((batch["kind"] == EventKind.ATEN_START).any())

    def finish(self) -> Ownership:
        """Put the owners into words."""
        columns = {
            name: self._blocks[name] for name in ("sequence", "pool", "device", "attribute_id", "is_of_operator")
        }
        uses, is_saved = self._blocks["backward_uses"], self._blocks["is_saved"]
        facts = {name: self._blocks[name] for name in ("sequence", "freed", "size", "device")}
        lives = block_lives(facts, pl.concat(self._marked), self._strings, self._attributes_of, self._ended_at)
        # Read in one stretch by backward passes. A block that is read in a second one, after a forward pass used it
        # again, was not made for the first. An exception is a block with all of that within a step.
        is_used_by_backward = self._blocks["is_of_backward"] | (uses > 0)
        is_read = (uses == 1) | ((uses > 1) & lives.is_short) | (is_saved & (uses == 0))
        kinds = {
            "is_activation": self._blocks["is_of_forward"] & is_read,
            "is_cache": self._caches.find(lives.outlives_a_step) & ~is_used_by_backward,
            "is_gradient": self._blocks["is_used_later"] & ~lives.outlives_two_steps,
            "is_workspace": self._workspaces.find(lives.outlives_a_step),
            "is_of_program": lives.outlives_a_step,
        }
        owners = self._in_words(pl.DataFrame({**columns, **kinds, **self._levels()}))
        is_unclear = not self._has_accesses and (self._has_operators or bool(self._blocks["is_of_operator"].any()))
        return Ownership(owners, (NO_ACCESSES,) if is_unclear else ())

    def finish_labelled(self) -> pl.DataFrame:
        """Return the blocks that the user has labelled, as `Ownership.owners`: who allocated them, and their labels."""
        columns = {name: self._blocks[name] for name in ("sequence", "pool", "device", "attribute_id")}
        blocks = pl.DataFrame({**columns, **self._levels()})
        of_user = [name for level in USER_LEVELS if (name := f"level_{level}") in blocks.columns]
        unknown = (field.name for field in dataclasses.fields(OwnerTraits) if field.name != "is_pinned")
        labelled = (
            blocks.filter(pl.any_horizontal(pl.col(name) != 0 for name in of_user)) if of_user else blocks.clear()
        )
        return self._in_words(labelled.with_columns(pl.lit(value=False).alias(name) for name in unknown))

    def _levels(self) -> dict[str, _Numbers]:
        return {f"level_{level}": self._blocks[f"level_{level}"] for level in sorted(self._labels.levels_in_use)}

    def _in_words(self, blocks: pl.DataFrame) -> pl.DataFrame:
        """Return `sequence` and `owner` of blocks with all columns that their owner is made of."""
        attributes = self._attributes_of(blocks["attribute_id"]).select("attribute_id", "module", "is_pinned")
        traits = [name for name in blocks.columns if name != "sequence"]
        # A few combinations stand for all blocks: only they become text one by one.
        combinations = blocks.select(traits).unique(maintain_order=True)
        described = combinations.join(attributes, on="attribute_id", how="left", maintain_order="left")
        texts = [self._owner(row) for row in described.iter_rows(named=True)]
        owner = pl.Series("owner", texts, dtype=pl.Enum(list(dict.fromkeys(texts))))
        owners = blocks.join(combinations.with_columns(owner), on=traits, how="left", maintain_order="left")
        return owners.select("sequence", "owner")

    def _add_frees(self, frees: pl.DataFrame) -> None:
        rows, is_known = self._rows_of(frees["extra"].to_numpy())
        self._blocks["freed"][rows] = frees["sequence"].to_numpy()[is_known]

    def _add_blocks(self, allocations: pl.DataFrame) -> None:
        if allocations.is_empty():
            return
        flags = allocations["flags"].to_numpy()
        # Blocks from before collection began may have been made by anything.
        is_recomputed = (flags & int(EventFlag.RECOMPUTED)) != 0
        is_of_backward = ((flags & int(EventFlag.BACKWARD)) != 0) & ~is_recomputed
        first = self._blocks.append(
            sequence=allocations["sequence"].to_numpy(),
            pool=allocations["pool"].to_numpy(),
            device=allocations["device"].to_numpy(),
            size=allocations["size"].to_numpy(),
            attribute_id=allocations["attribute_id"].to_numpy(),
            is_of_operator=allocations["name_id"].to_numpy() != 0,
            is_of_forward=~is_of_backward & ((flags & int(EventFlag.SHADOW)) == 0),
            is_of_backward=is_of_backward,
            is_recomputed=is_recomputed,
        )
        rows = np.arange(first, first + allocations.height)
        self._caches.add_blocks(rows, allocations["sequence"].to_numpy(), allocations["name_id"].to_numpy())
        self._workspaces.add_blocks(rows, allocations["pool"].to_numpy(), allocations["name_id"].to_numpy())
        self._label(rows, allocations["extra"].to_numpy())

    def _add_labels(self, labels: pl.DataFrame) -> None:
        rows, is_known = self._rows_of(labels["extra"].to_numpy())
        self._label(rows, labels["attribute_id"].to_numpy()[is_known], adds=True)

    def _label(self, rows: _Numbers, texts: _Numbers, *, adds: bool = False) -> None:
        """Give blocks the labels of label texts.

        Args:
            rows: Of blocks, in the order of the labels: of those of one level the last one counts.
            texts: String ids.
            adds: Whether labels of the user are added to those that a block has.
        """
        is_labelled = texts != 0
        rows = rows[is_labelled]
        by_level = self._labels.by_level(texts[is_labelled])
        kinds = by_level.get(LabelLevel.DETAIL_1)
        counts = np.ones(len(rows), np.bool_) if kinds is None else self._counting(rows, kinds)
        added = [labels for level, labels in sorted(by_level.items()) if adds and level in USER_LEVELS]
        if added:
            self._add_labels_of_user(np.repeat(rows, len(added)), np.stack(added, axis=1).ravel())
        for level, labels in by_level.items():
            if adds and level in USER_LEVELS:
                continue
            column = self._blocks.column(f"level_{level}", np.uint32)
            has_one = (labels != 0) & counts
            latest_rows, latest_labels = _latest(rows[has_one], labels[has_one])
            column[latest_rows] = latest_labels

    def _counting(self, rows: _Numbers, kinds: _Numbers) -> _Numbers:
        """Return which labels count, of labels on the level for kinds of memory; take note of saved tensors.

        A block that is an activation as well is something else first. A framework's name of a weight counts, if there
        is one.
        """
        is_saved = kinds == self._labels.number_of(MODEL_ACTIVATION)
        self._blocks["is_saved"][rows[is_saved]] = True
        is_weight = kinds == self._labels.number_of(MODEL_WEIGHT)
        if not is_weight.any():
            return np.asarray(~is_saved)
        column = self._blocks.column(f"level_{int(LabelLevel.DETAIL_1)}", np.uint32)
        names_one = ~is_weight & ~is_saved & (kinds != 0)
        different = np.unique(rows)
        latest = dict(zip(different.tolist(), column[different].tolist(), strict=True))
        stays = np.zeros(len(rows), np.bool_)
        for place, (row, kind, names, weight) in enumerate(
            zip(rows.tolist(), kinds.tolist(), names_one.tolist(), is_weight.tolist(), strict=True)
        ):
            if names:
                latest[row] = kind
            elif weight:
                text = self._labels.text(latest[row])
                stays[place] = bool(text) and not is_of_model(text)
        return np.asarray(~is_saved & ~stays)

    def _add_labels_of_user(self, rows: _Numbers, labels: _Numbers) -> None:
        """Give blocks one more label of the user each, where it is not among theirs and there are fewer than three."""
        columns = [self._blocks.column(f"level_{int(level)}", np.uint32) for level in USER_LEVELS]
        self._labels.levels_in_use.update(map(int, USER_LEVELS))
        rows, labels = rows[labels != 0], labels[labels != 0]
        while len(rows):
            _, first = np.unique(rows, return_index=True)  # of each block the first label; the others afterwards
            blocks, new = rows[first], labels[first]
            new = np.where(np.logical_or.reduce([column[blocks] == new for column in columns]), 0, new)
            for column in columns:
                is_free = (column[blocks] == 0) & (new != 0)
                column[blocks[is_free]] = new[is_free]
                new = np.where(is_free, 0, new)
            is_left = np.ones(len(rows), np.bool_)
            is_left[first] = False
            rows, labels = rows[is_left], labels[is_left]

    def _add_uses(self, accesses: pl.DataFrame) -> None:
        if accesses.is_empty():
            return
        self._has_accesses = True
        rows, is_known = self._rows_of(accesses["extra"].to_numpy())
        self._blocks["is_of_operator"][rows] = True
        self._workspaces.add_uses(rows)
        flags = accesses["flags"].to_numpy()[is_known]
        is_forward_again = ((flags & int(EventFlag.RECOMPUTED)) != 0) & self._blocks["is_recomputed"][rows]
        is_backward = ((flags & int(EventFlag.BACKWARD)) != 0) & ~is_forward_again
        self._blocks["is_used_later"][rows[~is_backward & self._blocks["is_of_backward"][rows]]] = True
        is_read = accesses["kind"].to_numpy()[is_known] == EventKind.ACCESS_READ
        of_forward = ~is_backward
        sequences, names = (accesses[name].to_numpy()[is_known][of_forward] for name in ("sequence", "name_id"))
        self._caches.add_uses(rows[of_forward], sequences, names, is_read[of_forward])
        # A write by a backward pass tells nothing about the purpose of a block.
        counts = ~is_backward | is_read
        self._count_backward_uses(rows[counts], is_backward[counts])

    def _count_backward_uses(self, rows: _Numbers, is_backward: _Numbers) -> None:
        """Count for each block the stretches of uses by backward passes; more than one is as good as two."""
        if len(rows) == 0:
            return
        order = np.argsort(rows, kind="stable")
        rows, is_backward = rows[order], is_backward[order]
        begins = np.concatenate(([True], rows[1:] != rows[:-1]))
        follows_backward = np.concatenate(([False], is_backward[:-1]))
        last_use, counts = self._blocks["last_use"], self._blocks["backward_uses"]
        follows_backward[begins] = last_use[rows[begins]] == _BACKWARD
        starts = np.flatnonzero(begins)
        new = np.add.reduceat((is_backward & ~follows_backward).astype(np.int64), starts)
        blocks = rows[starts]
        counts[blocks] = np.minimum(counts[blocks] + new, 2)
        ends = np.concatenate((starts[1:], [len(rows)])) - 1
        last_use[blocks] = np.where(is_backward[ends], _BACKWARD, _FORWARD)

    def _rows_of(self, sequences: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Return the rows of blocks, and for each sequence number of a MALLOC whether it has one."""
        known = self._blocks["sequence"]
        rows = np.searchsorted(known, sequences)
        is_known = rows < len(known)
        is_known[is_known] = known[rows[is_known]] == sequences[is_known]
        return rows[is_known], is_known

    def _owner(self, traits: dict[str, Any]) -> str:
        levels = {level: traits.get(f"level_{level}", 0) for level in LabelLevel}
        return owner_text(
            {level: self._labels.text(number) for level, number in levels.items() if number},
            pool=traits["pool"],
            device=traits["device"],
            module=traits["module"],
            traits=OwnerTraits(
                is_pinned=bool(traits["is_pinned"]),
                is_activation=traits["is_activation"],
                is_gradient=traits["is_gradient"],
                is_cache=traits["is_cache"],
                is_workspace=traits["is_workspace"] and self._has_accesses,
                is_of_program=traits["is_of_program"],
                is_of_operator=traits["is_of_operator"],
            ),
        )


def _latest(rows: _Numbers, values: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return each row once, with the last of its values."""
    different, from_end = np.unique(rows[::-1], return_index=True)
    return different, values[::-1][from_end]
