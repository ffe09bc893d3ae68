"""Device memory as torch documents it, on the virtual NPU: each check in a process of its own."""

from __future__ import annotations

import ast
import functools
import subprocess

import pytest

from vnpu.tests.programs import TARGET_PROGRAMS, run_program

PROGRAM = TARGET_PROGRAMS / "memory_checks.py"
CHECKS = [
    node.name
    for node in ast.parse(PROGRAM.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and not node.args.args
]
# Expandable segments reserve addresses and map physical memory: the other half of the driver's interface. Sizes of
# segments differ there, so only the checks that do not look at them run.
SEGMENT_INDEPENDENT = [
    "out_of_memory", "lazily_backed", "two_devices", "pinned", "data_loader", "save_and_load",
]  # fmt: skip

VERSIONS = """\
import torch
from torch_npu.npu.utils import get_cann_version

print([get_cann_version(package) for package in ("CANN", "RUNTIME", "DRIVER")])
torch.ones(4 << 20, device="npu")
print(torch.npu.memory_reserved() >> 20)
"""


@functools.cache
def outcomes(checks: tuple[str, ...], **environment: str) -> subprocess.CompletedProcess[str]:
    """The outcome of some checks: torch is imported once, and each check runs in a process forked after that."""
    return run_program(PROGRAM, *checks, options=["--devices=2"], environment=environment)


@pytest.mark.parametrize("check", CHECKS)
def test_memory(check: str) -> None:
    ended = outcomes(tuple(CHECKS))
    assert f"{check} ok" in ended.stdout.splitlines(), ended.stderr


@pytest.mark.parametrize("check", SEGMENT_INDEPENDENT)
def test_memory_of_expandable_segments(check: str) -> None:
    ended = outcomes(tuple(SEGMENT_INDEPENDENT), PYTORCH_NPU_ALLOC_CONF="expandable_segments:True")
    assert f"{check} ok" in ended.stdout.splitlines(), ended.stderr


@pytest.mark.parametrize(
    ("options", "printed"),
    [([], ["['', '', '']", "18"]), (["--cann=8.5.0", "--driver=25.5.0"], ["['8.5.0', '8.5.0', '25.5.0']", "1024"])],
    ids=["older", "newer"],
)
def test_pages_of_a_gigabyte_need_newer_versions(options: list[str], printed: list[str]) -> None:
    ended = run_program("-c", VERSIONS, options=options, environment={"PYTORCH_NPU_ALLOC_CONF": "page_size:1g"})
    assert ended.stdout.splitlines() == printed, ended.stderr
