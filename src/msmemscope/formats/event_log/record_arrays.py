"""Arrays of whole records, moved as blocks of bytes.

NumPy copies structured arrays field by field where they are joined (`concatenate`) or indexed by an array: some ten times as
slow. `take` and `compress` move whole records, and so does `joined`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


def joined(parts: Sequence[np.ndarray[Any, np.dtype[Any]]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return records one behind the other.

    Args:
        parts: At least one array; all of one structured type.
    """
    kind = parts[0].dtype
    whole = np.dtype((np.void, kind.itemsize))
    return np.concatenate([part.view(whole) for part in parts]).view(kind)
