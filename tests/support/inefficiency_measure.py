"""How well inefficient memory is found in a program where it was planted: precision and recall by kind and device."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msmemscope.analysis.inefficient.inefficient import KIND_WORDS, InefficientOptions, find_inefficient
from msmemscope.formats.reading import load
from tests.support import tool
from tests.support.devices import device_of_tests
from tests.support.measures import Measure
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROGRAM = SOURCES / "planted_inefficiencies.py"
IDLE_THRESHOLD = 30
_ROUNDING_BYTES = 1024
"""The bytes that allocators add to a size at most. The planted sizes are further apart."""


def run_planted(device: str, output: Path) -> tool.ToolRun:
    """Run the program on a device under the tool.

    Raises:
        NotInstalledError: If there is no such device.
    """
    target = device_of_tests(device)
    command = [*tool.TOOL, f"--device={device}", "--analysis=inefficient", f"--output={output}", "--"]
    finished = tool.run([*command, target.python, PROGRAM, device], output=output, variables=target.variables)
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


def score(device: str, truth: Mapping[int, str], kinds: Mapping[int, tuple[str, ...]]) -> list[Measure]:
    """Compare what was found with what was planted: a row per kind."""
    return [
        Measure(
            question="inefficient",
            what=kind,
            device=device,
            unit="blocks",
            true=sum(wanted == kind for wanted in truth.values()),
            found=sum(found_kinds.count(kind) for found_kinds in kinds.values()),
            right=sum(kind in kinds[size] for size, wanted in truth.items() if wanted == kind),
        )
        for kind in KIND_WORDS
    ]


def measure(output: Path, device: str) -> list[Measure]:
    """Run the program on a device and return a row per kind.

    Raises:
        NotInstalledError: If there is no such device.
    """
    run = run_planted(device, output)
    return score(device, planted(run), found(run))
