"""What a user gets from `pip install .`: the wheel has everything that the tool needs, and nothing else."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NEEDED_PATTERNS = (
    r"msmemscope/__init__\.py",
    r"msmemscope/py\.typed",
    r"msmemscope/lib64/libmsmemscope_core\.so",
    *(
        rf"msmemscope/lib64/lib{name}\.so"
        for name in (
            "leaks_ascend_hal_hook",
            "ascend_mstx_hook",
            "ascend_kernel_hook",
            "atb_abi_0_hook",
            "atb_abi_1_hook",
        )
    ),
    r"msmemscope/_native\..*so",
    r"msmemscope/cli/main\.py",
    r"msmemscope/reports/html/static/report\.css",
    r"msmemscope/reports/html/static/report\.js",
    r"msleaks/__init__\.py",
    r"msmemscope-[\d.]+\.data/scripts/msmemscope",
    r"msmemscope-[\d.]+\.dist-info/entry_points\.txt",
    r"msmemscope-[\d.]+\.dist-info/licenses/LICENSE",
)

UNWANTED_PATTERN = re.compile(r"(^|/)(tests|docs|benchmarks|native|__pycache__)/|\.(cpp|h|o|a)$|CMake")


@pytest.mark.slow
def test_a_wheel_has_what_the_tool_needs(tmp_path: Path) -> None:
    """Built from a copy without build products, as pip does it."""
    if importlib.util.find_spec("scikit_build_core") is None or importlib.util.find_spec("nanobind") is None:
        pytest.skip("the build requirements are not installed in this environment")
    source = tmp_path / "source"
    left_out = shutil.ignore_patterns(".git", ".venv", "build", "*.so", "lib64", "__pycache__", ".*_cache", "memscope*")
    shutil.copytree(ROOT, source, ignore=left_out)
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet"]
    built = subprocess.run(
        [*command, "--wheel-dir", str(tmp_path), str(source)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    missing = [pattern for pattern in NEEDED_PATTERNS if not any(re.fullmatch(pattern, name) for name in names)]
    assert not missing, f"missing: {missing}; in the wheel: {names}"
    unwanted = [name for name in names if UNWANTED_PATTERN.search(name)]
    assert not unwanted
