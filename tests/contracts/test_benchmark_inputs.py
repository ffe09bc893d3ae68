"""The inputs that benchmarks make up are still event logs and dumps of today's formats."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import msmemscope

GENERATOR = Path(__file__).parents[2] / "benchmarks" / "dump_generator.py"


@pytest.mark.parametrize("form", ["event-log", "csv", "db"])
def test_made_up_inputs_are_read(form: str, tmp_path: Path) -> None:
    """Without a problem, on two devices, with what the questions need."""
    target = str(tmp_path / "input")
    command = [sys.executable, str(GENERATOR), "--events=4000", "--devices=2", f"--form={form}", target]
    subprocess.run(command, check=True, capture_output=True)
    recording = msmemscope.load(target)
    assert recording.problems == ()
    assert recording.blocks["device"].unique().sort().to_list() == [0, 1]
    assert recording.events["thread_id"].n_unique() == 1
    assert recording.attributes["dtype"].drop_nulls().unique().to_list() == ["torch.float32"]
    assert not recording.steps.is_empty()
    assert recording.inefficient().coverage.is_answered
