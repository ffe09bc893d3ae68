"""Sleep and wake of a program with the tensors of the cpu: what stays is what the program keeps, at its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import msmemscope
from msmemscope.cli.main import main
from tests.support.warm import run_observed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

MIB = 1 << 20
CYCLES = 4

PROGRAM = f"""
import sys
import torch
import msmemscope

MIB = {MIB}
stays = torch.ones(3 * MIB, dtype=torch.uint8)
weights = torch.ones(8 * MIB, dtype=torch.uint8)
leaked = []
for _ in range({CYCLES}):
    with msmemscope.RecordFunction("sleep"):
        del weights
    with msmemscope.RecordFunction("wake_up"):
        weights = torch.ones(8 * MIB, dtype=torch.uint8)
        if sys.argv[1:] == ["leaks"]:
            leaked.append(torch.ones(2 * MIB, dtype=torch.uint8))
"""


def line_of(text: str) -> str:
    """The call site of a line of the program."""
    (found,) = (number for number, line in enumerate(PROGRAM.splitlines(), start=1) if line.strip().startswith(text))
    return f"({found})"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program as a file, so that its lines have a name."""
    path = tmp_path / "rollout.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_the_leak_is_named(program: Path, output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To the byte, in the API and as the first line of the command, whose status says that something was found."""
    run = run_observed([program, "leaks"], "--call-stack=python", output=output)
    assert run.returncode == 0, run.stderr
    capture = run.capture.directory
    result = msmemscope.load(capture).sleep()
    assert result.cycles["asleep_bytes"].to_list() == [(3 + 2 * cycle) * MIB for cycle in range(CYCLES)]
    assert result.cycles["awake_bytes"].to_list() == [(3 + 8 + 2 * cycle) * MIB for cycle in range(CYCLES)]
    rows = {row["site"]: row for row in result.sites.iter_rows(named=True)}
    leak, stays = rows[f"{program}{line_of('leaked.append')}"], rows[f"{program}{line_of('stays =')}"]
    assert (leak["is_growing"], leak["growth_bytes_per_cycle"], leak["last_bytes"]) == (True, 2 * MIB, 6 * MIB)
    assert (stays["is_growing"], stays["growth_bytes_per_cycle"], stays["last_bytes"]) == (False, 0, 3 * MIB)
    assert main(["analyze", "sleep", "--fail-on-findings", str(capture)]) != 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"cpu: 2.00 MiB more stays in use with each sleep at {program}{line_of('leaked.append')}; ")


def test_without_a_leak_nothing_grows(program: Path, output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the tensor that stays is there while asleep."""
    run = run_observed([program], "--call-stack=python", output=output)
    assert run.returncode == 0, run.stderr
    assert main(["analyze", "sleep", "--fail-on-findings", str(run.capture.directory)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(
        f"cpu: 3.00 MiB stays in use while asleep, 3.00 MiB of it at {program}{line_of('stays =')}; nothing grows from "
        "sleep to sleep"
    )
