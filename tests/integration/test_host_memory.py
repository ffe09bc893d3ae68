"""Host memory that grows outside of tensors is said to grow, with its bytes; what it is, is not observed."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SERVER = """
import sys
import torch

model = torch.nn.Linear(16, 16)
pending = []

def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20

for request in range(1500):
    model(torch.ones(1, 16))
    if request == 1:
        begin = resident()
    pending.append(str(request).zfill(40_000))
    if sys.argv[1:] == ["drained"]:
        pending.clear()
print(resident() - begin)
"""


@pytest.mark.parametrize("is_drained", [False, True], ids=["grows", "drained"])
def test_growth_outside_of_tensors(tmp_path: Path, *, is_drained: bool) -> None:
    """A list of strings that nobody drains is no tensor, and is host memory; the kernel's own figure is the truth."""
    program, output = tmp_path / "server.py", tmp_path / "out"
    program.write_text(SERVER)
    words = [*tool.TOOL, f"--output={output}", "--", sys.executable, program, *(["drained"] if is_drained else [])]
    run = tool.run(words, output=output)
    verdict = " ".join(run.stderr.split())
    if is_drained:
        assert (
            "nothing found: no leak over 1,500 steps, no steady growth of host memory, no failed allocation" in verdict
        )
        return
    found = re.search(r"msmemscope: host memory: ([\d.]+) MiB on cpu, .* outside of tensors", verdict)
    assert found is not None, verdict
    assert float(found[1]) == pytest.approx(float(run.stdout), rel=0.1)
