"""Arrays of whole records: joined as NumPy would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.event_log.event_segments import joined
from msmemscope.formats.event_log.layout import RECORD

_SOURCE = np.frombuffer(bytes(range(256)) * 16, dtype=RECORD)


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(0, 64)), min_size=1, max_size=6))
def test_parts_stand_one_behind_the_other(bounds: list[tuple[int, int]]) -> None:
    """All fields of all records, also of parts that are views, cannot be written to, or are empty."""
    parts: list[np.ndarray[Any, np.dtype[Any]]] = [_SOURCE[begin:end] for begin, end in bounds]
    together = joined(parts)
    assert together.dtype == RECORD
    assert together.tolist() == np.concatenate(parts).tolist()
    assert not any(np.shares_memory(together, part) for part in parts)


def test_parts_of_another_type_are_refused() -> None:
    """Bytes of other lengths are no records."""
    with pytest.raises((TypeError, ValueError)):
        joined([_SOURCE, np.zeros(3, dtype=[("sequence", "<u4")])])
