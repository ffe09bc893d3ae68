"""Torch allocates on an NPU under the tool what it allocates alone: torch_npu's own history of its allocator says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ascend.conftest import Observe, RunAlone

PROGRAM = SOURCES / "choices_of_torch.py"


def test_torch_allocates_what_it_allocates_alone(observe: Observe, run_alone: RunAlone, tmp_path: Path) -> None:
    """Every block and segment, in their order."""
    observed, alone, with_mode = (tmp_path / name for name in ("observed.json", "alone.json", "mode.json"))
    observe([], str(PROGRAM), observed, "npu", log_alone=True)
    for file, words in ((alone, ()), (with_mode, ("mode",))):
        run = run_alone(str(PROGRAM), file, "npu", *words, folder=tmp_path)
        assert run.returncode == 0, run.stderr
    assert all(json.loads(alone.read_text()).values())
    assert json.loads(observed.read_text()) == json.loads(alone.read_text())
    assert json.loads(with_mode.read_text())["summed_gradients"] != json.loads(alone.read_text())["summed_gradients"]
