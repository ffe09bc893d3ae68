"""The documented way without the launcher: `eval "$(msmemscope env)"`, and start() in the program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import tool
from tests.support.ascend import PROGRAMS, Observation
from tests.support.nightly import nightly
from tests.support.targets import SOURCES

PROGRAM = PROGRAMS / "started_inside.py"
ENV = f"{sys.executable} -m msmemscope env"


def run_in_shell(script: str, folder: Path, environment: dict[str, str]) -> Observation:
    """Run lines of a shell in a folder, where the results come to lie."""
    lines = f"set -e\ncd {folder}\n{script}"
    run = tool.run(["bash", "-c", lines], output=folder / "memscopeDumpResults", variables=environment)
    assert run.returncode == 0, run.stderr
    return Observation(run)


@pytest.mark.parametrize(
    "program_comes_first",
    [pytest.param(True, id="preloaded"), pytest.param(False, id="imported", marks=nightly)],
)
def test_programs_that_start_collection_themselves(
    vnpu_environment: dict[str, str], tmp_path: Path, *, program_comes_first: bool
) -> None:
    """With the preloaded library and with the import alone: the pool's figures are torch_npu's own."""
    preparation = f'eval "$({ENV})"\n' if program_comes_first else ""
    observation = run_in_shell(f"{preparation}{sys.executable} {PROGRAM}\n", tmp_path, vnpu_environment)
    report = observation.run.report
    allocations = observation.of(0, event="MALLOC", event_type="PTA")
    assert allocations, observation.run.stderr
    rows = [row for row in observation.of(0) if row["Event Type"] == "PTA"]
    # After stop(), only ends of recorded blocks are.
    last = [row for row in rows if row["Event"] == "MALLOC" or "shadow" not in row["attributes"]][-1]
    assert last["attributes"]["used"] == report["allocated"]
    assert last["attributes"]["total"] == report["reserved"]
    # Earlier blocks are recorded as existing.
    assert "shadow" in allocations[0]["attributes"]
    assert observation.of(0, event="SYSTEM", event_type="START_TRACE")
    assert observation.of(0, event="SYSTEM", event_type="STOP_TRACE")


def test_what_is_older_than_the_import_exists(vnpu_environment: dict[str, str], tmp_path: Path) -> None:
    """With the libraries preloaded, blocks of the pool are known before the program imports msmemscope."""
    program = SOURCES / "imported_late.py"
    observation = run_in_shell(f'eval "$({ENV})"\n{sys.executable} {program} npu\n', tmp_path, vnpu_environment)
    blocks = [row["attributes"] for row in observation.of(0, event="MALLOC", event_type="PTA")]
    weights = [block for block in blocks if "@model@weight" in block.get("owner", "")]
    assert [int(block["size"]) >= 360_000 for block in weights] == [True]
    assert weights[0]["shadow"] == "true"


def test_the_lines_can_be_repeated_and_taken_back(cann_environment: dict[str, str], tmp_path: Path) -> None:
    """Twice changes nothing more, and afterwards everything is as it was."""
    show = 'echo "preload=${LD_PRELOAD-unset} search=$LD_LIBRARY_PATH"'
    script = f'{show}\neval "$({ENV})"\n{show}\neval "$({ENV})"\n{show}\n/bin/true\neval "$({ENV} --unset)"\n{show}\n'
    before, once, twice, after = run_in_shell(script, tmp_path, cann_environment).run.reports
    assert before == after
    assert once == twice
    entries = once["preload"].split(":")
    assert len(entries) == 5
    assert all(Path(entry).is_file() for entry in entries)
    assert any(str(Path(entry).resolve()).endswith("libascend_kernel_hook.so") for entry in entries)
