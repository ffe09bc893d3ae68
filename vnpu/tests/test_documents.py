"""README.md and OPERATORS.md say what is so: their commands run, their tables are current."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from virtual_npu.compiled_kernels import ensure_kernels, implemented_functions
from virtual_npu.installation import require_matching_packages
from vnpu.tests.operator_pages import NAMES, choices, with_block
from vnpu.tests.programs import NIGHT, REPOSITORY, clean_environment
from vnpu.tests.test_operators import all_cases

README = REPOSITORY / "vnpu" / "README.md"
OPERATORS = REPOSITORY / "vnpu" / "OPERATORS.md"
TEXT = README.read_text(encoding="utf-8")
COMMANDS = [
    line for body in re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL) for line in body.splitlines()
]
SHORTER: dict[str, str] = {
    "vnpu run -- python examples/train_gpt.py": "vnpu run -- python examples/train_gpt.py --steps=2",
    "vnpu run --streams=asynchronous -- python examples/train_gpt.py": (
        "vnpu run --streams=asynchronous -- python examples/train_gpt.py --steps=2"
    ),
    "vnpu run --compute=none --ranks=8 -- python examples/train_in_parallel.py --size=7b": (
        "vnpu run --compute=none --ranks=2 -- python examples/train_in_parallel.py --size=tiny --context=128 --tensor=1"
    ),
}
"""Commands, and shorter ones that replace them by day: the same programs and options, with less to do. At night they
run as they are."""
INSTALLATION = "pip install ./vnpu torch==2.13.0 torch_npu==2.13.0 numpy pyyaml"


def implemented() -> dict[str, str]:
    """The functions with a kernel, each with its file."""
    torch, _ = require_matching_packages()
    return implemented_functions(ensure_kernels(torch, clean_environment()), torch)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != INSTALLATION])
def test_commands_run(command: str, tmp_path: Path) -> None:
    # The command as a new user has it: a script beside this Python.
    script = tmp_path / "vnpu"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m virtual_npu "$@"\n')
    script.chmod(0o755)
    environment = clean_environment()
    environment["PATH"] = f"{tmp_path}:{Path(sys.executable).parent}:{environment['PATH']}"
    run = command if NIGHT else SHORTER.get(command, command)
    ended = subprocess.run(
        ["bash", "-c", run], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_what_is_shorter_by_day_are_commands_of_the_page() -> None:
    """Else one that has changed would not be made shorter, and what stands here would be of no use."""
    assert SHORTER.keys() <= set(COMMANDS)


def test_the_installation_is_the_one_of_the_makefile() -> None:
    assert INSTALLATION in COMMANDS
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for requirement in INSTALLATION.split()[3:5]:
        assert requirement in makefile


def test_python_snippets_run() -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    ended = subprocess.run(
        [sys.executable, "-c", snippet], env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert re.fullmatch(rf"2 \(\d+, {32 << 30}\)\n", ended.stdout)


def test_the_table_of_choices_is_current() -> None:
    assert with_block(TEXT, "choices", choices()) == TEXT, "run make docs"


def test_the_tables_of_operators_are_current() -> None:
    page = OPERATORS.read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert listed == set(implemented()), "run make docs"
    cases = {(parameter.id.partition("-")[0], parameter.values[0].name) for parameter in all_cases()}
    assert f"the {len(cases)} operator cases ({len(all_cases())} comparisons" in TEXT, "run make docs"


def test_the_list_of_functions_is_that_of_the_installed_wheel() -> None:
    """Every name of the list is one that torch_npu looks up; a new version may know more of them."""
    _, torch_npu = require_matching_packages()
    library = (torch_npu.folder / "lib" / "libtorch_npu.so").read_bytes()
    names = NAMES.read_text(encoding="utf-8").split()
    assert len(names) == len(set(names))
    known = set(re.findall(rb"acl\w+", library))
    assert not [name for name in names if name.encode() not in known]


def test_every_kernel_is_of_a_function_that_is_looked_up() -> None:
    """Kernels of the older interface, known by the operator's name, are in files that say so."""
    names = set(NAMES.read_text(encoding="utf-8").split())
    strangers = {function for function, file in implemented().items() if function not in names}
    assert all(implemented()[function].endswith("_by_name") for function in strangers), strangers


def test_the_folder_of_kernels_travels_with_the_package() -> None:
    import virtual_npu

    folder = Path(virtual_npu.__file__).parent / "kernels"
    assert {path.suffix for path in folder.iterdir()} == {".cpp", ".h"}
    assert os.access(folder / "kernel.h", os.R_OK)
