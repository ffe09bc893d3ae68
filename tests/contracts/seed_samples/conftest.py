"""Where the samples of the seed documents run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ascend import NotInstalledError, virtual_npu_environment
from tests.support.seed_samples import (
    WITH_TORCH_NPU,
    Workplace,
)
from tests.support.warm_process import WarmPython


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Variables with which programs run torch_npu on the virtual NPU."""
    try:
        return virtual_npu_environment(with_torch=True)
    except NotInstalledError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def warm_python(environment: dict[str, str]) -> WarmPython:
    """A Python without the tool that has imported torch_npu."""
    return WarmPython(WITH_TORCH_NPU, variables=environment)


@pytest.fixture
def workplace(tmp_path: Path, environment: dict[str, str]) -> Workplace:
    """An empty folder with the commands."""
    return Workplace(tmp_path, environment)
