"""The Attr column, as CSV and as DB files have it.

CSV: `{allocation_id:4,addr:0x…,size:64}`, empty if there is nothing to say. There is
no escaping in this form: a value runs up to the next `,key:`.
DB: `{"allocation_id":"4","addr":"0x…","size":"64"}`, compact JSON whose values are all
strings, `{}` if there is nothing to say. MindStudio Insight searches it as text, so
key and value stand side by side without blanks.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from msmemscope.formats.attributes import hexadecimal as hexadecimal_text
from msmemscope.formats.attributes import named_texts
from msmemscope.formats.dump.cells import Part, TextCells, TextsByKey, decimal, hexadecimal
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import ACCESS_KINDS, MEMORY_KINDS, EventFlag, EventKind
from msmemscope.model.pools import POOL_WORDS, POOLS_WITH_RESERVE, Pool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from msmemscope.formats.dump.cells import Flags, Numbers

    Events: TypeAlias = Mapping[str, Numbers]

_TASK_KINDS: Final = (EventKind.KERNEL_LAUNCH, EventKind.KERNEL_EXECUTE_START, EventKind.KERNEL_EXECUTE_END)
_OTHERS, _MEMORY, _ACCESS, _TASK = range(4)
"""Rows that are about the same have the same attributes."""


def _shape_of_kind() -> np.ndarray[Any, np.dtype[np.uint8]]:
    shapes = np.full(256, _OTHERS, dtype=np.uint8)
    for shape, kinds in ((_MEMORY, MEMORY_KINDS), (_ACCESS, ACCESS_KINDS), (_TASK, _TASK_KINDS)):
        shapes[[int(kind) for kind in kinds]] = shape
    return shapes


_SHAPE_OF_KIND: Final = _shape_of_kind()
_HAS_RESERVE: Final = np.isin(np.arange(256), [int(pool) for pool in POOLS_WITH_RESERVE])


class BlockAttributes(NamedTuple):
    """Attributes that only some rows have, already in the form of the file; None if no row has one."""

    recorded: Part | None
    """The attributes that were recorded beside the other columns, of any event."""
    owner: Part | None = None
    """Of a MALLOC; see `BlockColumn`."""
    inefficient: Part | None = None
    """Likewise."""


class AttributeForm(Enum):
    """How the Attr column is written."""

    CSV = "csv"
    JSON = "json"

    def pair(self, key: str, value: pl.Expr) -> pl.Expr:
        """Return one attribute whose value needs no escaping; null where the value is null."""
        if self is AttributeForm.CSV:
            return pl.concat_str(pl.lit(self.opening(key)), value)
        return pl.concat_str(pl.lit(self.opening(key)), value, pl.lit(self.closing))

    def part(self, key: str, value: Part) -> Part:
        """Return one attribute whose value needs no escaping, for rows that have the value."""
        return value.between(self.opening(key), self.closing)

    def opening(self, key: str) -> str:
        """Return what stands in front of the value of an attribute."""
        return f"{key}:" if self is AttributeForm.CSV else f'"{key}":"'

    @property
    def closing(self) -> str:
        """The text behind the value of an attribute."""
        return "" if self is AttributeForm.CSV else '"'

    def recorded(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Write attributes that were recorded.

        Args:
            pairs: Of `formats.attributes.PAIR_SCHEMA`.

        Returns:
            `id` and `text`: the attributes of each id, one behind the other. Two facts are left out, because they have
            attributes of their own. The statistics say whether memory is pinned, for FREE as for MALLOC. The owner
            contains the module.
        """
        shown = ~pl.col("key").is_in([int(AttributeKey.MODULE), int(AttributeKey.IS_PINNED)])
        named = named_texts(pairs.filter(shown))
        if self is AttributeForm.JSON:
            named = named.with_columns(_json_strings(named["name"]), _json_strings(named["value"]))
        text = pl.concat_str("name", pl.lit(":"), "value")
        return named.group_by("id", maintain_order=True).agg(text.str.join(",").alias("text"))

    def attribute(self, key: str, text: str) -> str:
        """Return an attribute whose value is free text, which may hold colons, commas and quotes of its own."""
        return f"{key}:{text}" if self is AttributeForm.CSV else f'"{key}":{_json_string(text)}'


def pointer(address: Numbers) -> Part:
    """Return addresses as `0x` and 16 hexadecimal digits."""
    return hexadecimal(address).between("0x")


def pointer_text(address: pl.Expr) -> pl.Expr:
    """Return the same as texts."""
    return pl.concat_str(pl.lit("0x"), hexadecimal_text(address))


def attribute_cells(form: AttributeForm, events: Events, of_blocks: BlockAttributes) -> TextCells:
    """Return the Attr column.

    Args:
        form: How it is written.
        events: Columns of EVENT_SCHEMA and those of `Totals`, as arrays.
        of_blocks: Attributes that not every event has.
    """
    nothing = () if form is AttributeForm.CSV else (Part("{}"),)
    recorded = of_blocks.recorded
    others = () if recorded is None else (recorded.between("{", "}"),)
    shapes = (
        others,
        _of_memory(form, events, of_blocks),
        _of_access(form, events, recorded),
        _of_task(form, events, recorded),
    )
    return TextCells(shapes, _SHAPE_OF_KIND[events["kind"]], nothing)


def _of_memory(form: AttributeForm, events: Events, of_blocks: BlockAttributes) -> tuple[Part, ...]:
    is_shadow = (events["flags"] & int(EventFlag.SHADOW)) != 0
    block = np.where(events["kind"] == EventKind.MALLOC, events["sequence"], events["extra"])
    behind = (
        *_statistics(form, events),
        form.part("shadow", Part("true")).only(is_shadow),
        of_blocks.owner,
        of_blocks.recorded,
        of_blocks.inefficient,
    )
    return _joined(*_about_block(form, events, block), *behind)


def _of_access(form: AttributeForm, events: Events, recorded: Part | None) -> tuple[Part, ...]:
    pool = form.part("type", _POOL_TEXTS[form].part(events["pool"].astype(np.uint16) + 1))
    return _joined(*_about_block(form, events, events["extra"]), pool, recorded)


def _of_task(form: AttributeForm, events: Events, recorded: Part | None) -> tuple[Part, ...]:
    stream, task = events["extra"] >> np.uint64(32), events["extra"] & np.uint64(0xFFFFFFFF)
    return _joined(form.part("streamId", decimal(stream)), form.part("taskId", decimal(task)), recorded)


def _about_block(form: AttributeForm, events: Events, block: Numbers) -> tuple[Part, ...]:
    return (
        form.part("allocation_id", decimal(block)),
        form.part("addr", pointer(events["address"])),
        form.part("size", decimal(events["size"])),
    )


def _joined(first: Part, *further: Part | None) -> tuple[Part, ...]:
    """Return attributes in braces; those that are None are left out."""
    return (first.between("{"), *(part.between(",") for part in further if part is not None), Part("}"))


def _statistics(form: AttributeForm, events: Events) -> tuple[Part, ...]:
    """Return the attributes that tell how full a pool and its device are, in their order."""
    pool, device = events["pool"], events["device"]
    live = decimal(events["live_bytes"])
    is_pinned = (pool == Pool.HAL) & (device == DEVICE_CPU)
    # CPU tensors: what is in use is all there is.
    is_cpu_tensor = (pool == Pool.HOST) & (device == DEVICE_CPU)
    has_reserve = _HAS_RESERVE[pool]
    is_on_device = has_reserve | ((pool == Pool.HAL) & (device >= 0))
    has_statistics = is_on_device | is_pinned

    def known(column: str, where: Flags) -> Part:
        return decimal(events[column]).only(where & (events[column] >= 0))

    return (
        form.part("pinned", Part("true")).only(is_pinned),
        form.part("total", live).only(is_cpu_tensor),
        form.part("total", known("reserved_bytes", has_reserve & ~is_cpu_tensor)),
        form.part("used", live).only(has_statistics),
        form.part("process_used", known("process_used_bytes", has_statistics)),
        form.part("device_used", known("device_used_bytes", is_on_device)),
    )


_POOL_TEXTS: Final = {
    form: TextsByKey.of({pool + 1: word for pool, word in POOL_WORDS.items()}, is_csv=form is AttributeForm.CSV)
    for form in AttributeForm
}


def _json_strings(texts: pl.Series) -> pl.Series:
    """Escape texts, each different one once."""
    different = texts.unique()
    escaped: pl.Series = texts.replace_strict(
        different, [_json_string(text) for text in different], return_dtype=pl.String
    )
    return escaped


def _json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
