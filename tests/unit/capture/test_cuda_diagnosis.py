"""Each layer of CUDA is found, or its absence explained."""

from __future__ import annotations

import ctypes.util
import importlib.util
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from msmemscope.capture.findings import Finding, Status
from msmemscope.launch import cuda_diagnosis
from msmemscope.launch.cuda_diagnosis import diagnose_cuda

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def torch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a driver and its management library, and the folder of a torch without anything in it."""
    for name in ("nvidiactl", "version"):
        (tmp_path / name).write_text(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n", encoding="utf-8"
        )
    folder = tmp_path / "torch"
    (folder / "lib").mkdir(parents=True)
    (folder / "version.py").write_text("cuda: Optional[str] = '12.4'\n", encoding="utf-8")
    monkeypatch.setattr(cuda_diagnosis, "CUDA_DRIVER_FILES", (str(tmp_path / "nvidiactl"),))
    monkeypatch.setattr(cuda_diagnosis, "_DRIVER_VERSION", tmp_path / "version")
    spec = SimpleNamespace(origin=str(folder / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"lib{name}.so.1")
    return folder


def findings(environment: dict[str, str] | None = None) -> dict[str, Finding]:
    """The outcome of each check; what is not well says what to do."""
    found = {finding.subject: finding for finding in diagnose_cuda(environment or {})}
    assert all(finding.status is Status.OK or finding.advice for finding in found.values())
    return found


def build_allocator(folder: Path, text: str) -> None:
    """Build a library in the place of torch's allocator for CUDA."""
    library = folder / "lib" / "libc10_cuda.so"
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
    subprocess.run(command, input=text, text=True, check=True)


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line is enough."""
    monkeypatch.setattr(cuda_diagnosis, "CUDA_DRIVER_FILES", ("/dev/none",))
    assert {subject: finding.status for subject, finding in findings().items()} == {"CUDA driver": Status.MISSING}


def test_a_torch_whose_blocks_are_seen(torch_folder: Path) -> None:
    """The driver has its version, and torch that of CUDA."""
    build_allocator(
        torch_folder,
        "namespace c10 { struct Device { char a, b; };"
        "void reportMemoryUsageToProfiler(void*, long, unsigned long, unsigned long, Device); }"
        "void report() { c10::reportMemoryUsageToProfiler(nullptr, 0, 0, 0, c10::Device{}); }",
    )
    found = findings()
    assert {finding.status for finding in found.values()} == {Status.OK}
    assert found["CUDA driver"].detail.startswith("550.54.15, ")
    assert found["torch for CUDA"].detail.startswith("CUDA 12.4")


@pytest.mark.parametrize("text", ["", "int nothing;", None])
def test_a_torch_whose_blocks_are_not_seen(torch_folder: Path, text: str | None) -> None:
    """A build without CUDA, one that does not report its blocks, and a file that is no library."""
    if text:
        build_allocator(torch_folder, text)
    elif text is None:
        (torch_folder / "lib" / "libc10_cuda.so").write_text("text", encoding="utf-8")
    assert findings()["torch for CUDA"].status is Status.WARN


def test_what_stands_in_the_way(torch_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container without the management library, and another tool that gets the marks."""
    assert torch_folder.is_dir()
    monkeypatch.setattr(ctypes.util, "find_library", lambda _name: None)
    found = findings({"NVTX_INJECTION64_PATH": "/opt/nsys.so"})
    assert found["NVML"].status is found["NVTX"].status is Status.WARN
    assert "/opt/nsys.so" in found["NVTX"].detail
