"""The command: what it accepts, what it refuses, what it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from vnpu.tests.programs import clean_environment, run_program


def vnpu(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "virtual_npu", *arguments],
        env=clean_environment() | dict(environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--devices=0", "--", "true"], ["--devices: '0'", "a number from 1 to 64"]),
        (["run", "--devices=two", "--", "true"], ["--devices: 'two'"]),
        (["run", "--memory=64Gb", "--", "true"], ["--memory: '64Gb'", "64GiB"]),
        (["run", "--memory=-1", "--", "true"], ["--memory: '-1'"]),
        (["run", "--memory=0", "--", "true"], ["more than 0 bytes"]),
        (["run", "--compute=gpu", "--", "true"], ["--compute: 'gpu'", "cpu, none"]),
        (["run", "--streams=x", "--", "true"], ["--streams: 'x'", "synchronous, asynchronous"]),
        (["run", "--cann=8", "--", "true"], ["--cann: '8'", "8.5.0"]),
        (["run", "--driver=25.5.x y", "--", "true"], ["--driver: '25.5.x y'", "8.5.0 or 9.0.RC1"]),
        (["run", "--soc=H100", "--", "true"], ["--soc: 'H100'", "Ascend910B1"]),
        (["run", "--workspace=much", "--", "true"], ["--workspace: 'much'"]),
        (["run", "--overhead=RUNTIME", "--", "true"], ["--overhead: 'RUNTIME'", "RUNTIME=128MiB"]),
        (["run", "--overhead=SPAM=1GiB", "--", "true"], ["--overhead: 'SPAM=1GiB'"]),
        (["run", "--faults=fail-allocation:0", "--", "true"], ["--faults: 'fail-allocation:0'", "fail-allocation:N"]),
        (["run", "--faults=explode", "--", "true"], ["--faults: 'explode'", "overrun:FUNCTION"]),
        (["run", "--faults=overrun:Add", "--", "true"], ["--faults: 'overrun:Add'"]),
        (["run", "--faults=overrun:aclnnAdd:1:x", "--", "true"], ["--faults: 'x'"]),
        (["run", "--compute=none", "--faults=overrun:aclnnAdd", "--", "true"], ["compute=cpu"]),
        (["run", "--compute=none", "--ranks=0", "--", "python", "x.py"], ["--ranks: '0'", "a number from 1 to 64"]),
        (["run", "--compute=none", "--ranks=65", "--", "python", "x.py"], ["--ranks: '65'"]),
        (["run", "--compute=none", "--ranks=2", "--", "true"], ["--ranks: 'true'", "python FILE"]),
        (["run", "--compute=none", "--ranks=2", "--", "python", "-m", "x"], ["python FILE", "torchrun"]),
        (["run", "--spam", "--", "true"], ["--spam", "vnpu --help"]),
        (["run"], ["no program given", "vnpu run -- python train.py"]),
        (["run", "--", "no-such-program"], ["'no-such-program'"]),
        (["walk"], ["walk", "vnpu --help"]),
        ([], ["COMMAND"]),
    ],
)
def test_wrong_input_starts_nothing(arguments: list[str], words: list[str]) -> None:
    ended = vnpu(*arguments)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("vnpu: ")
    assert "Traceback" not in ended.stderr
    for word in words:
        assert word in ended.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [("VNPU_DEVICES", "x"), ("VNPU_MEMORY", "1XB"), ("VNPU_COMPUTE", "gpu"), ("VNPU_FAULTS", "x"), ("VNPU_SOC", "x")],
)
def test_a_wrong_variable_is_named(variable: str, value: str) -> None:
    ended = vnpu("run", "--", "true", environment={variable: value})
    assert ended.returncode == 2
    assert f"{variable}: '{value}'" in ended.stderr


def test_options_win_over_the_environment() -> None:
    printed = vnpu("env", "--compute=none", "--memory=2GiB", environment={"VNPU_MEMORY": "3GiB", "VNPU_DEVICES": "4"})
    assert "export VNPU_MEMORY=2147483648\n" in printed.stdout
    assert "export VNPU_DEVICES=4\n" in printed.stdout


def test_the_environment_works_in_a_shell(tmp_path: Path) -> None:
    script = (
        f'eval "$({sys.executable} -m virtual_npu env --compute=none --devices=3)" && '
        f"{sys.executable} -c 'import torch; print(torch.npu.device_count())'"
    )
    ended = subprocess.run(
        ["bash", "-c", script], env=clean_environment(), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "3\n"


def test_the_program_keeps_its_status_and_its_streams() -> None:
    program = "import sys; print(sys.stdin.read()); sys.exit(7)"
    ended = subprocess.run(
        [sys.executable, "-m", "virtual_npu", "run", "--compute=none", sys.executable, "-c", program],
        env=clean_environment(), input="through", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 7
    assert ended.stdout == "through\n"


def test_a_real_cann_is_not_replaced_unasked(tmp_path: Path) -> None:
    environment = {"ASCEND_HOME_PATH": str(tmp_path)}
    ended = vnpu("run", "--compute=none", "--", "true", environment=environment)
    assert ended.returncode == 2
    assert f"ASCEND_HOME_PATH is {tmp_path}" in ended.stderr
    assert "--despite-cann" in ended.stderr
    assert vnpu("run", "--compute=none", "--despite-cann", "--", "true", environment=environment).returncode == 0


def test_one_virtual_npu_inside_another() -> None:
    inner = [sys.executable, "-m", "virtual_npu", "run", "--compute=none", "--devices=2", "--"]
    program = "import torch; print(torch.npu.device_count())"
    ended = vnpu("run", "--compute=none", "--devices=5", "--", *inner, sys.executable, "-c", program)
    assert ended.stdout == "2\n", ended.stderr


def test_packages_that_do_not_match_are_refused(tmp_path: Path) -> None:
    """A torch_npu of another version stands before the real one."""
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").touch()
    metadata = tmp_path / "torch_npu-2.1.0.post8.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.1.0.post8\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    for compute in ("cpu", "none"):
        ended = vnpu("run", f"--compute={compute}", "--", "true", environment={"PYTHONPATH": path})
        assert ended.returncode == 2
        assert "torch_npu 2.1.0.post8 does not belong to torch 2." in ended.stderr
        assert "hint: pip install torch_npu==2." in ended.stderr


def test_no_compiler(tmp_path: Path) -> None:
    environment = {"VNPU_CACHE": str(tmp_path), "VNPU_KERNELS": "", "PATH": str(tmp_path), "CXX": ""}
    ended = vnpu("run", "--", sys.executable, environment=environment)
    assert ended.returncode == 2
    assert "no C++ compiler found" in ended.stderr
    assert "compute=none" in ended.stderr


def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'no such standard: c++20'\nexit 3\n")
    compiler.chmod(0o755)
    ended = vnpu("run", "--", "true", environment={
        "VNPU_CACHE": str(tmp_path / "cache"), "VNPU_KERNELS": "", "CXX": str(compiler),
    })  # fmt: skip
    assert ended.returncode == 2
    assert "no such standard: c++20" in ended.stderr
    assert not list((tmp_path / "cache").glob("*.so*"))


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {"VNPU_CACHE": str(tmp_path / "file" / "cache"), "VNPU_KERNELS": ""}
    ended = vnpu("run", "--", "true", environment=environment)
    assert ended.returncode == 2
    assert "VNPU_CACHE" in ended.stderr


def test_information_says_what_is_there() -> None:
    printed = vnpu("info", "--devices=3").stdout
    assert "torch and torch_npu match  yes" in printed
    assert "real CANN                  none here" in printed
    assert "VNPU_DEVICES               3" in printed


def test_a_variable_set_by_hand_is_checked_by_the_runtime() -> None:
    program = (
        "import os\nos.environ['VNPU_DEVICES'] = 'many'\nimport torch\n"
        "try:\n    torch.empty(1, device='npu')\nexcept RuntimeError as error:\n    print(error)\n"
    )
    ended = run_program("-c", program, options=["--compute=none"])
    assert "VNPU_DEVICES: 'many' is not accepted" in ended.stderr


def test_devices_may_be_chosen_after_torch_is_imported() -> None:
    """As on hardware: until a device is used. A character that belongs to no number ends the list."""
    program = (
        "import os, sys, torch\nprint(torch.npu.device_count())\n"
        "os.environ['ASCEND_RT_VISIBLE_DEVICES'] = '1,2 ,3'\nprint(torch.npu.device_count())\n"
        "torch.empty(1, device='npu:1')\nprint(torch.npu.device_count())\n"
    )
    ended = run_program("-c", program, options=["--compute=none", "--devices=4"])
    assert ended.stdout.split() == ["4", "2", "2"], ended.stderr
