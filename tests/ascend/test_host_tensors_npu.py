"""CPU tensors of a program on an NPU: where the CPU is left out, they are sampled as other host memory is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.host.host_ledger import account_for_host
from msmemscope.analysis.host.host_samples import TENSORS
from msmemscope.analysis.leaks.host_growth import find_host_growth
from msmemscope.formats.reading import load
from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

KEPT_BYTES = 32 * 8000 * 4
SERVER = """
import time, torch, torch_npu

class Evaluator:
    def __init__(self):
        self.model = torch.nn.Linear(64, 8000).npu()
        self.predictions = []

    @torch.no_grad()
    def answer(self, batch):
        self.predictions.append(self.model(batch.npu()).cpu())  # KEPT

evaluator = Evaluator()
for _ in range(120):
    evaluator.answer(torch.randn(32, 64))
    time.sleep(0.015)
"""


def test_tensors_that_are_kept_have_their_line_and_their_holder(
    vnpu_environment: dict[str, str], tmp_path: Path
) -> None:
    """They are a part of the ledger, and the container that keeps them is named with their bytes."""
    program, output = tmp_path / "serve.py", tmp_path / "out"
    program.write_text(SERVER)
    line = SERVER[: SERVER.index("# KEPT")].count("\n") + 1
    command = [*tool.TOOL, "--device=npu", f"--output={output}", "--", sys.executable, program]
    run = tool.run(command, output=output, variables=vnpu_environment)
    assert run.returncode == 0, run.stderr
    recording = load(run.capture.directory)
    found = find_host_growth(recording)
    assert found is not None
    assert found.site is not None
    assert found.container is not None
    assert (found.is_growing, found.site.what) == (True, TENSORS)
    assert f"serve.py({line}): answer" in found.site.site
    assert found.site.live_bytes == pytest.approx(120 * KEPT_BYTES, rel=0.35)
    assert "Evaluator.predictions, from __main__.evaluator" in found.container.words
    assert "1000 KiB each" in found.container.words
    parts = dict(account_for_host(recording).parts.select("part", "end_bytes").iter_rows())
    assert parts[TENSORS] == pytest.approx(120 * KEPT_BYTES, rel=0.35)
    screen = " ".join(run.stderr.split())
    assert screen.startswith("msmemscope: host memory: ")
    assert "outside of tensors" not in screen
