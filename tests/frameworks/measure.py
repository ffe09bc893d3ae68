"""Holds programs against their recordings, block by block, and says so in a line of JSON.

`python -m tests.frameworks.measure [--device=npu] MODULE.NAME ...` prints the bytes of each owner and every difference.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.frameworks.catalogue import PROGRAMS, installed_version, search_path
from tests.owner_truths.measure import score, table
from tests.support import tool
from tests.support.ascend import virtual_npu_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.owner_truths.measure import Difference, Row

RESULTS_VARIABLE = "MSMEMSCOPE_COMPATIBILITY"
"""Names a file of JSON lines that results are added to; see docs/generators/compatibility_page.py."""
LANE_VARIABLE = "MSMEMSCOPE_TRAINING"
"""Set by `make test-training`: all programs are run."""
TIMEOUT_S = 500


def run(identity: str, device: str, folder: Path) -> tool.ToolRun:
    """Run a program under the tool.

    Raises:
        NotInstalledError: If there is no virtual NPU.
    """
    variables = {
        "OWNER_TRUTHS_DEVICE": device,
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(folder),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hub"),
        "DS_BUILD_OPS": "0",
        "PYTHONWARNINGS": "ignore",
        "MASTER_PORT": str(_free_port()),
    }
    path = search_path()
    if device == "npu":
        npu = virtual_npu_environment(with_torch=True)
        ranks = str(PROGRAMS[identity].ranks)
        variables |= {**npu, "VNPU_MEMORY": "4GiB", "VNPU_DEVICES": ranks}
        path = os.pathsep.join(dict.fromkeys([*npu["PYTHONPATH"].split(os.pathsep), *path.split(os.pathsep)]))
    variables["PYTHONPATH"] = path
    output = folder / "output"
    options = [f"--device={device}", "--analysis=decompose", "--call-stack=", f"--output={output}"]
    runner = Path(__file__).with_name("run_program.py")
    command = [*tool.TOOL, *options, "--", sys.executable, runner, identity]
    finished = tool.run(command, output=output, variables=variables, timeout_s=TIMEOUT_S, folder=folder)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def measure(identity: str, device: str, folder: Path) -> tuple[list[Row], list[Difference]]:
    """Run a program under the tool and score it: the bytes of each owner, and every block whose owner is another one.

    Raises:
        NotInstalledError: If there is no virtual NPU.
    """
    return score(run(identity, device, folder), device, owners=PROGRAMS[identity].owners, whole_lives=True)


def report(identity: str, device: str, rows: Sequence[Row], differences: Sequence[Difference]) -> Mapping[str, str]:
    """Return the line of a result, and add it to the file of results if there is one."""
    program = PROGRAMS[identity]
    others = ["torch", *program.needs, *(["torch_npu"] if device == "npu" else [])]
    versions = [f"{name} {installed_version(name)}" for name in others if name != program.package]
    processes = f", {program.ranks} processes" if program.ranks > 1 else ""
    wrong = sum(each.size_bytes for each in differences)
    line = {
        "package": program.package,
        "version": str(installed_version(program.package)),
        "device": "virtual NPU" if device == "npu" else "CPU",
        "checked": f"{program.checked}{processes}: {', '.join(program.owners)}",
        "result": f"{wrong} bytes differ" if wrong else "equal",
        "detail": ", ".join(versions),
    }
    name = os.environ.get(RESULTS_VARIABLE)
    if name:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return line


def main(words: Sequence[str]) -> int:
    """Print what was found."""
    devices = [word.partition("=")[2] for word in words if word.startswith("--device=")] or ["cpu"]
    identities = [word for word in words if not word.startswith("--")] or list(PROGRAMS)
    for device in devices:
        for identity in identities:
            with tempfile.TemporaryDirectory() as folder:
                rows, differences = measure(identity, device, Path(folder))
            sys.stdout.write(f"{table(rows)}\n")
            for difference in differences:
                sys.stdout.write(f"{difference}\n")
            sys.stdout.write(f"{json.dumps(report(identity, device, rows, differences))}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
