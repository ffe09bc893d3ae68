"""virtual_npu.activate(): no launcher, no search path."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from vnpu.tests.programs import clean_environment, nightly

SAME_PROCESS = "import virtual_npu\nvirtual_npu.activate(compute='none', devices=2, memory='3GiB')\n"
USE = "print(torch.npu.device_count(), torch.npu.mem_get_info()[1] >> 30)\nprint(torch.ones(3, device='npu').shape)\n"
USED = "2 3\ntorch.Size([3])\n"
"""The output of that program."""


def run_python(text: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program without the command."""
    return subprocess.run(
        [sys.executable, "-c", text],
        env=clean_environment() | dict(environment or {}),
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@nightly
def test_torch_finds_the_devices() -> None:
    """By day the snippet of README.md shows it, and with these choices the test of what must come first."""
    ended = run_python(f"{SAME_PROCESS}import torch\n{USE}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == USED


def test_children_find_them_too() -> None:
    program = SAME_PROCESS + (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import torch; print(torch.npu.device_count())'], check=True)\n"
    )
    assert run_python(program).stdout == "2\n"


def test_again_is_nothing_unless_the_choices_differ() -> None:
    program = SAME_PROCESS + (
        "virtual_npu.activate(compute='none', devices=2, memory=3 << 30)\n"
        "try:\n    virtual_npu.activate(devices=1)\nexcept virtual_npu.VirtualNpuError as error:\n    print(error)\n"
    )
    assert "already active in this process, with other choices" in run_python(program).stdout


def test_it_must_come_before_torch_npu() -> None:
    """Torch alone may be there; torch_npu may not, and where it was, nothing is activated."""
    program = (
        "import sys, types\nimport torch\n"
        "sys.modules['torch_npu'] = types.ModuleType('torch_npu')\n"
        "import virtual_npu\n"
        "try:\n    virtual_npu.activate(compute='none')\nexcept virtual_npu.VirtualNpuError as error:\n    print(error)\n"
        "del sys.modules['torch_npu']\n"
        "print('---')\n"
        f"{SAME_PROCESS}"
        "import torch_npu\n"
        f"{USE}"
    )
    # Loading torch would load torch_npu else.
    ended = run_python(program, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    refused, _, activated = ended.stdout.partition("---\n")
    assert "before `import torch`" in refused
    assert activated == USED, ended.stderr


def test_wrong_values_are_named() -> None:
    program = (
        "import virtual_npu\n"
        "for wrong in ({'devices': 0}, {'memory': 'x'}, {'compute': 'gpu'}, {'faults': ['x']}, {'overhead': 'x'}):\n"
        "    try:\n        virtual_npu.activate(**wrong)\n"
        "    except virtual_npu.VirtualNpuError as error:\n        print(str(error).splitlines()[0])\n"
    )
    lines = run_python(program).stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["devices", "memory", "compute", "faults", "overhead"]


def test_importing_it_is_cheap() -> None:
    ended = run_python(
        "import sys, virtual_npu; print([name for name in ('torch', 'numpy', 'rich') if name in sys.modules])"
    )
    assert ended.stdout == "[]\n"
