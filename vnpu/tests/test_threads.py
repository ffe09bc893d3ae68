"""Operators that many threads run at the same time: their rehearsals need no lock that another thread may hold."""

from __future__ import annotations

from vnpu.tests.programs import run_good


def test_threads_rehearse_new_shapes_at_the_same_time() -> None:
    """One of them at a time asks torch for its implementations: that damaged the heap in one run of two."""
    assert run_good("new_shapes_in_threads.py").strip() == str([40 * (number + 1) for number in range(40)])


def test_rehearsals_within_a_dispatch_mode_need_no_interpreter() -> None:
    """Its lock may be held by a thread that waits for this one; and torch would import all of its compiler."""
    assert run_good("rehearsals_within_a_mode.py") == "[] 32.62\n"
