"""The devices that programs of tests have their tensors on, and how to start one for each."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.ascend import virtual_npu_environment
from tests.support.cuda import cuda_environment, cuda_python

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class TestDevice:
    """How to start a program that uses a device."""

    __test__ = False  # pytest takes it for tests

    python: str
    variables: Mapping[str, str]
    observed: str
    """The value of `--device` with which all of the program's tensors are observed."""


def device_of_tests(word: str) -> TestDevice:
    """Return how to start a program on a device.

    Args:
        word: `cpu`, `npu` or `cuda`: without hardware the virtual NPU, and the emulated CUDA runtime.

    Raises:
        NotInstalledError: If there is no such device here.
    """
    if word == "npu":
        return TestDevice(sys.executable, virtual_npu_environment(with_torch=True), "npu,cpu")
    if word == "cuda":
        return TestDevice(cuda_python(), cuda_environment(), "cuda,cpu")
    return TestDevice(sys.executable, {}, "cpu")
