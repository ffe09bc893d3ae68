"""The virtual NPU for tests: active in the test process itself, before anything imports torch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import virtual_npu

# An operator that fails raises where it is called, and the process stays usable: one failing test is one failing test.
os.environ["ASCEND_LAUNCH_BLOCKING"] = "1"
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


@pytest.fixture(scope="session")
def npu() -> None:
    """The virtual NPU in this process."""
