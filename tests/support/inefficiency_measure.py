"""How well inefficient memory is found in a program where it was planted: precision and recall by kind and device."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.analysis.inefficient.inefficient import KIND_WORDS, InefficientOptions, find_inefficient
from msmemscope.formats.reading import load
from tests.support import tool
from tests.support.ascend import NotInstalledError, virtual_npu_environment
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = SOURCES / "planted_inefficiencies.py"
DEVICES = ("cpu", "npu")
IDLE_THRESHOLD = 30
_ROUNDING_BYTES = 1024
"""What allocators add to a size at most; the sizes that are planted are further apart."""


@dataclass(frozen=True)
class Measured:
    """One row: blocks of one kind on one device."""

    kind: str
    device: str
    planted: int
    found: int
    found_right: int

    @property
    def precision(self) -> float:
        """Of the blocks found, the share that was planted so."""
        return self.found_right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Of the blocks planted, the share that was found."""
        return self.found_right / self.planted if self.planted else 1.0


def run_planted(device: str, output: Path) -> tool.ToolRun:
    """Run the program on a device under the tool.

    Raises:
        NotInstalledError: If there is no such device.
    """
    command = [*tool.TOOL, f"--device={device}", "--analysis=inefficient", f"--output={output}", "--"]
    variables = virtual_npu_environment(with_torch=True) if device == "npu" else {}
    finished = tool.run([*command, sys.executable, PROGRAM, device], output=output, variables=variables)
    assert finished.returncode == 0, finished.stderr
    return finished


def planted(run: tool.ToolRun) -> dict[int, str]:
    """Return what the program says: bytes to kind, `none` for blocks that are held no longer than they are used."""
    return {int(size): kind for size, kind in json.loads(run.report["planted"]).items()}


def found(run: tool.ToolRun) -> dict[int, tuple[str, ...]]:
    """Return the kinds that are found of each block of a planted size."""
    result = find_inefficient(load(run.capture.directory), InefficientOptions(idle_threshold=IDLE_THRESHOLD))
    kinds: dict[int, tuple[str, ...]] = dict.fromkeys(planted(run), ())
    for size, kind in result.findings.select("size", "kind").sort("size", "kind").iter_rows():
        matching = [wanted for wanted in kinds if wanted <= size < wanted + _ROUNDING_BYTES]
        for wanted in matching:
            kinds[wanted] += (kind,)
    return kinds


def score(device: str, truth: Mapping[int, str], kinds: Mapping[int, tuple[str, ...]]) -> list[Measured]:
    """Compare what was found with what was planted."""
    return [
        Measured(
            kind=kind,
            device=device,
            planted=sum(wanted == kind for wanted in truth.values()),
            found=sum(found_kinds.count(kind) for found_kinds in kinds.values()),
            found_right=sum(kind in kinds[size] for size, wanted in truth.items() if wanted == kind),
        )
        for kind in KIND_WORDS
    ]


def measure() -> list[Measured]:
    """Run the program on each device that this machine has and return a row per kind and device."""
    rows = []
    for device in DEVICES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                run = run_planted(device, Path(folder) / "output")
            except NotInstalledError:
                continue
            rows += score(device, planted(run), found(run))
    return rows
