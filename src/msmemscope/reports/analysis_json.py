"""Results of analyses as JSON: any result dataclass, with the names of its fields and columns as keys.

Tables become lists of objects. Devices and pools are written as in dumps (`npu:0`, `cpu`; `PTA`), addresses as
hexadecimal text, numbers that JSON does not have as null. Stacks are given once, by the ids that the rows name.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

import polars as pl

from msmemscope.analysis.remark import Remark
from msmemscope.model.devices import DEVICE_NONE, device_name
from msmemscope.model.place import Place
from msmemscope.model.pools import pool_word

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_STACKS = ("python_stack_id", "native_stack_id")


def result_content(result: object, recording: Recording) -> dict[str, Any]:
    """Turn the result of an analysis into what `json.dumps` takes.

    Args:
        result: A dataclass, or a mapping of such.
        recording: The recording that it was found in, where stacks are looked up.

    Returns:
        Its fields, and `python_stacks` and `native_stacks`: texts by id, as far as the fields name them.
    """
    converter = _Converter()
    content: dict[str, Any] = converter.plain(result)
    tables = (recording.python_stacks, recording.native_stacks)
    for column, table in zip(_STACKS, tables, strict=True):
        wanted = table.filter(pl.col("id").is_in(sorted(converter.stacks[column])))
        content[f"{column.removesuffix('_id')}s"] = {str(key): text for key, text in wanted.sort("id").iter_rows()}
    return content


class _Converter:
    """Converts values, and notes the stacks that rows name."""

    def __init__(self) -> None:
        self.stacks: dict[str, set[int]] = {column: set() for column in _STACKS}
        self.device = DEVICE_NONE
        """Of the object around the converted one, if that has none itself."""

    def plain(self, value: object) -> Any:
        if isinstance(value, pl.DataFrame):
            return [self._object(row) for row in value.iter_rows(named=True)]
        if isinstance(value, Place):
            return value.content()
        if isinstance(value, Remark):
            return value.sentence
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            # Analyses hand single columns on to each other: such a column can name every block of a run.
            return self._object({name: one for name, one in fields.items() if not isinstance(one, pl.Series)})
        if isinstance(value, Mapping):
            return self._object({str(key): item for key, item in value.items()})
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, (list, tuple)):
            return [self.plain(item) for item in value]
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        return value

    def _object(self, fields: dict[str, Any]) -> dict[str, Any]:
        around = self.device
        device, pool, address = (fields.get(name) for name in ("device", "pool", "address"))
        self.device = device if isinstance(device, int) else around
        content = {name: self.plain(value) for name, value in fields.items()}
        for name, identity in fields.items():
            for column, stacks in self.stacks.items():
                if name.endswith(column) and identity:
                    stacks.add(identity)
        if isinstance(device, int):
            content["device"] = device_name(device)
        if isinstance(pool, int):
            content["pool"] = pool_word(pool, self.device)
        if isinstance(address, int):
            content["address"] = f"0x{address:016x}"
        self.device = around
        return content
