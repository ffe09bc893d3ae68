"""Operators that run others on conjugated tensors: allocation for allocation as without the tool.

Bits are not compared: those of LAPACK depend on where memory begins, also without the tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.warm import run_observed_with_results, run_python

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

PROGRAM = """
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
wide, tall = (torch.randn(*shape, dtype=torch.complex64) for shape in ((3, 5), (5, 3)))
right = torch.randn(5, 2, dtype=torch.complex64)
calls = (
    lambda: torch.linalg.pinv(wide), lambda: torch.linalg.pinv(tall), lambda: torch.linalg.pinv(tall.mH),
    lambda: torch.linalg.lstsq(tall, right), lambda: tall.conj() @ wide.conj(), lambda: tall.imag.neg() * 2,
)
for call in calls:
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = sorted(profiler.events(), key=lambda event: event.time_range.start)
    print([event.cpu_memory_usage for event in events if event.name == "[memory]"])
"""


@pytest.mark.parametrize("option", ["--events=alloc,free,launch,access", "--watch=auto"])
def test_conjugates_are_made_as_they_are_alone(tmp_path: Path, option: str) -> None:
    """Of operators that are dispatched in native code, and in Python."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    alone = run_python([program], output=tmp_path, variables={})
    observed = run_observed_with_results([program], option, output=tmp_path / "output")
    assert alone.returncode == 0, alone.stderr
    assert observed.stdout == alone.stdout
