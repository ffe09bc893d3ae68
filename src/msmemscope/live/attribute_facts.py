"""The facts of attributes that are needed while events are summed up; each attribute is looked up once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable

    Numbers = np.ndarray[Any, np.dtype[Any]]

NO_MODULE: Final = 0
"""Number of no module."""


class _Said(NamedTuple):
    is_pinned: bool
    module: int
    step_source: str | None


class AttributeFacts:
    """Tells facts of attribute ids: whether memory is pinned, who asked the driver for it, and the source of a step.

    Args:
        table_of: Takes attribute ids, and returns at least their rows of `recording.schema.ATTRIBUTE_SCHEMA`.
    """

    def __init__(self, table_of: Callable[[pl.Series], pl.DataFrame]) -> None:
        """Start with nothing looked up."""
        self._table_of = table_of
        self._known: Numbers = np.empty(0, np.uint32)
        self._said: dict[int, _Said] = {}
        self._modules: list[str | None] = [None]

    def module_text(self, number: int) -> str | None:
        """Return the module of a number; None of `NO_MODULE`."""
        return self._modules[number]

    def step_source(self, attribute_id: int) -> str | None:
        """Return what a step was taken from; None if nothing says so."""
        self._look_up(np.array([attribute_id], np.uint32))
        said = self._said.get(attribute_id)
        return None if said is None else said.step_source

    def of_blocks(self, attribute_ids: Numbers) -> tuple[Numbers, Numbers]:
        """Say whether each block is pinned memory of the host, and which module asked for it, by its number."""
        different, places = np.unique(attribute_ids, return_inverse=True)
        self._look_up(different)
        said = [self._said.get(number) for number in different.tolist()]
        is_pinned = np.fromiter((one is not None and one.is_pinned for one in said), np.bool_, len(said))
        modules = np.fromiter((NO_MODULE if one is None else one.module for one in said), np.int32, len(said))
        return is_pinned[places], modules[places]

    def _look_up(self, different: Numbers) -> None:
        new = np.setdiff1d(different, self._known)
        new = new[new != 0]
        if not len(new):
            return
        self._known = np.union1d(self._known, new)
        table = self._table_of(pl.Series(new)).select("attribute_id", "is_pinned", "module", "step_source")
        # Most sets say none of this: only the others are kept.
        says = table.filter(pl.any_horizontal(pl.col("is_pinned", "module", "step_source").is_not_null()))
        for number, is_pinned, module, step_source in says.iter_rows():
            self._said[number] = _Said(bool(is_pinned), self._module_number(module), step_source)

    def _module_number(self, module: str | None) -> int:
        if module not in self._modules:
            self._modules.append(module)
        return self._modules.index(module)
