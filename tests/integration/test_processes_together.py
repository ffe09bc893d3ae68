"""Workers that share pages with the process that forked them: what all of them have together is what the kernel says."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM: Final = """
import os, re, time
import torch
torch.set_num_threads(1)  # threads of torch do not survive a fork
shared = torch.ones(16 << 20)  # 64 MiB
def proportional(process):
    with open(f"/proc/{process}/smaps_rollup") as figures:
        return int(re.search(r"^Pss: +([0-9]+) kB", figures.read(), re.MULTILINE)[1]) << 10
def go_on(times):
    for number in range(times):
        str(number).zfill(4_000_000)  # a sample, and with it a figure
        time.sleep(0.05)
def work():
    kept = [torch.ones(1 << 20) for _ in range(8)]
    texts = [str(number).zfill(100_000) for number in range(320)]
    os.write(done, b"1")
    go_on(160)  # on a busy machine the kernel takes long to tell, and so it is asked less often
    del kept, texts
finished, done = os.pipe()
workers = []
for _ in range(3):
    process = os.fork()
    if not process:
        work()
        raise SystemExit
    workers.append(process)
for _ in workers:
    os.read(finished, 1)
go_on(120)
print(sum(map(proportional, [os.getpid(), *workers])), flush=True)
for process in workers:
    os.waitpid(process, 0)
"""


def test_shared_pages_count_once(tmp_path: Path) -> None:
    """Resident memory of each, added up, has them once per process."""
    program, output = tmp_path / "serve.py", tmp_path / "out"
    program.write_text(PROGRAM)
    run = tool.run([*tool.TOOL, f"--output={output}", sys.executable, program], output=output)
    answer = tool.run([*tool.TOOL, "analyze", "host", output, "--json"], output=output)
    together = json.loads(answer.stdout)["together"]
    assert together["processes"] == 4
    # A figure can be some seconds old.
    assert together["peak_bytes"] == pytest.approx(int(run.stdout), rel=0.2)
    assert together["resident_bytes"] > 1.4 * together["peak_bytes"]
    text = tool.run([*tool.TOOL, "analyze", "host", output], output=output).stdout
    assert "\n\nAll processes together: " in text
