"""Runs the chosen tests in a version lane: ``python -m tests.lanes.run WHICH [options of pytest]``, with its Python.

The tests of the virtual NPU are a run of their own: it is active in the process of those tests. Each area of the product is
a row of results, added as a line of JSON to the file that MSMEMSCOPE_COMPATIBILITY names.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.ascend import torch_npu_version

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS_VARIABLE: Final = "MSMEMSCOPE_COMPATIBILITY"

AREAS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "ascend": {
        "collection": ("four_ways_in_npu", "silent_collection_npu", "accounting_npu"),
        "memory pools": ("mstx",),
        "leaks": ("leak_zoo_npu",),
        "owners (decompose)": ("decompose_npu",),
        "memory block watch": ("watch_npu",),
        "allocator events": ("allocator_trace_npu",),
        "replay": ("replay_npu",),
        "snapshots of torch": ("snapshots_npu", "memory_history_npu"),
        "operators and launches": ("operators_npu", "native_operators_npu", "choices_of_torch_npu"),
        "steps and summaries": ("summaries_npu", "online_analyses_npu"),
        "several processes": ("cluster_npu", "ranks_of_torchrun"),
    },
    "vnpu": {
        "on the virtual NPU: training": ("training",),
        "on the virtual NPU: memory": ("memory", "mstx"),
        "on the virtual NPU: HCCL and DDP": ("collectives",),
    },
    "vllm-ascend": {"serving; owners of weights and cache": ("vllm_ascend_npu",)},
}
"""The subject of a row of results, and the test files that belong to it, for each folder of tests."""
FOLDERS: Final = {"ascend": Path("tests/ascend"), "vnpu": Path("vnpu/tests"), "vllm-ascend": Path("tests/ascend")}
PACKAGES: Final = {"ascend": "torch_npu", "vnpu": "torch_npu", "vllm-ascend": "vllm_ascend"}


class Results:
    """A plugin of pytest that counts what became of the tests of each area."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = {}
        """Of each file, by the end of its name."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: when it ran, or where it did not come to that."""
        if report.when == "call" or report.outcome != "passed":
            name = Path(report.nodeid.partition("::")[0]).stem.removeprefix("test_")
            self.outcomes.setdefault(name, Counter())[report.outcome] += 1

    def rows(self, which: str) -> list[dict[str, str]]:
        """Return a row for each area with a test that ran or failed."""
        package = PACKAGES[which]
        version = torch_npu_version() if package == "torch_npu" else importlib.metadata.version(package)
        rows = []
        for area, files in AREAS[which].items():
            found = sum((self.outcomes.get(file, Counter()) for file in files), Counter[str]())
            if found["passed"] or found["failed"]:
                rows.append(
                    {
                        "package": package,
                        "version": version,
                        "device": "npu",
                        "checked": area,
                        "result": "failed" if found["failed"] else "passed",
                        "detail": ", ".join(f"{found[word]} {word}" for word in sorted(found)),
                    }
                )
        return rows


def main(which: str, options: Sequence[str]) -> int:
    """Run the tests of a folder, from the root of the repository, and return pytest's exit status."""
    files = [str(FOLDERS[which] / f"test_{name}.py") for names in AREAS[which].values() for name in names]
    results = Results()
    status = pytest.main([*options, *files], plugins=[results])
    name = os.environ.get(RESULTS_VARIABLE)
    if name:
        with Path(name).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in results.rows(which))
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
