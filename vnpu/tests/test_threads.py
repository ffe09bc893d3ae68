"""Operators that many threads run at the same time."""

from __future__ import annotations

from vnpu.tests.programs import run_good


def test_threads_rehearse_new_shapes_at_the_same_time() -> None:
    """Torch's table of implementations is asked by one of them at a time: it damaged the heap in one run of two."""
    assert run_good("new_shapes_in_threads.py").strip() == str([40 * (number + 1) for number in range(40)])
