"""The virtual NPU for tests: active in the test process itself, before anything imports torch."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import virtual_npu

# An operator that fails raises where it is called, and the process stays usable: one failing test is one failing test.
os.environ["ASCEND_LAUNCH_BLOCKING"] = "1"
# Threads of torch's that have nothing to do spin else, on processors that other tests want.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
virtual_npu.activate()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that makes the report of the operator cases."""
    parser.addoption("--operator-report", type=Path, metavar="FILE", help="write which functions each case ran (JSON)")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the report, if one is wanted. It needs all cases in one process: no -n."""
    file = config.getoption("--operator-report")
    if file is not None:
        from vnpu.tests.operator_report import OperatorReport

        config.pluginmanager.register(OperatorReport(file))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put modules that take long first: workers take whole modules in this order, and in the end there are short ones."""
    tests = Counter(item.path for item in items)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path], item.path))


@pytest.fixture(scope="session")
def npu() -> None:
    """The virtual NPU in this process."""
