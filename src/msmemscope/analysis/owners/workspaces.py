"""Workspaces of cuBLAS, which PyTorch takes from its own allocator at the first matrix product of a stream, and keeps.

Three things tell them:

- A matrix product on a CUDA device allocated them.
- No operator has ever used them as a tensor.
- They outlive a step.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from msmemscope.analysis.owners.growing_table import GrowingTable

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_MATRIX_PRODUCT: Final = re.compile(
    r"\baten\.(?:(?:_(?:scaled|int|grouped|scaled_grouped)_|add|badd|addb)?b?mm|(?:add)?mv|v?dot|linear|matmul"
    r"|_addmm_activation)\."
)
"""The names of the operators that call cuBLAS."""


class WorkspaceFinder:
    """Takes note of blocks that matrix products allocate.

    Args:
        strings: String id to text.
        blocks: The known facts of each block; gets columns of our own.
    """

    def __init__(self, strings: Mapping[int, str], blocks: GrowingTable) -> None:
        """Start without blocks."""
        self._strings = strings
        self._blocks = blocks
        self._is_product: dict[int, bool] = {}

    def add_blocks(self, rows: _Numbers, pools: _Numbers, name_ids: _Numbers) -> None:
        """Take allocations in.

        Args:
            rows: Of the blocks.
            pools: Of the blocks.
            name_ids: Of the operators that allocated.
        """
        is_cuda = pools == int(Pool.CUDA)
        for name_id in np.unique(name_ids[is_cuda]).tolist():
            if self._is_made_by_product(name_id):
                made = rows[is_cuda & (name_ids == name_id)]
                self._blocks.column("is_of_product", np.bool_)[made] = True

    def add_uses(self, rows: _Numbers) -> None:
        """Take the blocks that operators use in."""
        self._blocks.column("is_of_product", np.bool_)[rows] = False

    def find(self, outlives_a_step: _Numbers) -> _Numbers:
        """Return of each block whether it is a workspace.

        Args:
            outlives_a_step: Of each block.
        """
        return np.asarray(self._blocks.column("is_of_product", np.bool_) & outlives_a_step)

    def _is_made_by_product(self, name_id: int) -> bool:
        if name_id not in self._is_product:
            name = self._strings.get(name_id, "") if name_id else ""
            self._is_product[name_id] = _MATRIX_PRODUCT.search(name) is not None
        return self._is_product[name_id]
