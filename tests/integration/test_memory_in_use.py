"""Memory that a program allocates and never touches takes no room, and neither does what malloc_trim gave back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest

from msmemscope.analysis.host.host_ledger import KEPT_FREE, UNKNOWN, HostLedger, account_for_host
from msmemscope.analysis.host.host_samples import NUMPY_ARRAYS, TENSORS
from msmemscope.formats.reading import load
from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

MEBIBYTE: Final = 1 << 20

TOUCHED: Final = """
import numpy, time, torch
torch.nn.functional.relu(torch.ones(64))
time.sleep(0.1)
reserved = numpy.empty(400 << 20, dtype=numpy.uint8)
half = []
for _ in range(5):
    time.sleep(0.01)
    half.append(numpy.empty(20 << 20, dtype=numpy.uint8))
    half[-1][: 10 << 20] = 1
cache = torch.empty(300 << 20, dtype=torch.uint8)
cache[: 60 << 20] = 1
for _ in range(8):
    scratch = numpy.empty(200 << 20, dtype=numpy.uint8)
    scratch[: 1 << 20] = 1
    del scratch
kept = [time.sleep(0.001) or bytes(100_000) for _ in range(400)]
"""

TRIMMED: Final = """
import ctypes, threading, time, torch
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
torch.nn.functional.relu(torch.ones(64))
time.sleep(0.1)

def work():
    # Blocks of 60 KiB that are touched and freed, between small ones that stay.
    blocks = []
    for _ in range(1000):
        block = libc.malloc(60_000)
        ctypes.memset(block, 1, 60_000)
        libc.malloc(64)
        blocks.append(block)
    for block in blocks:
        libc.free(block)

work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
time.sleep(2.5)
libc.malloc_trim(0)
kept = [time.sleep(0.001) or bytes(100_000) for _ in range(400)]
"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [(TOUCHED, {NUMPY_ARRAYS: 50, TENSORS: 60, KEPT_FREE: 0}), (TRIMMED, {KEPT_FREE: 0, TENSORS: 0})],
    ids=["touched", "trimmed"],
)
def test_what_is_not_in_memory_is_no_part_of_it(program: str, expected: dict[str, int], tmp_path: Path) -> None:
    """Each part is what the program touched, and next to nothing is unknown."""
    script, output = tmp_path / "serve.py", tmp_path / "out"
    script.write_text(program)
    run = tool.run(
        # Many samples, and a program slow enough for them: so the errors of the estimates are small.
        [*tool.TOOL, "--host=sampled:65536", f"--output={output}", "--", sys.executable, script],
        output=output,
        variables={"NUMPY_MADVISE_HUGEPAGE": "0"},  # a page of 2 MiB is touched as a whole
    )
    ledger = account_for_host(load(run.capture.directory))
    parts = _at_the_end(ledger)
    assert {part: parts.get(part, 0) for part in expected} == pytest.approx(expected, abs=6), parts
    assert abs(parts[UNKNOWN]) < 0.05 * ledger.end_bytes / MEBIBYTE, parts


def _at_the_end(ledger: HostLedger) -> dict[str, float]:
    """The parts in MiB."""
    return {part: size / MEBIBYTE for part, size in ledger.parts.select("part", "end_bytes").iter_rows()}
