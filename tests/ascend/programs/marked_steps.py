"""Uses NPU memory in five steps and says, in marks, how much torch holds.

Usage: marked_steps.py MARKS [import] [torch-npu-first], MARKS being whose functions make them: mstx or torch_npu. With "import"
the program observes itself; with "torch-npu-first" it leaves it to torch_npu to import torch.
"""

from __future__ import annotations

import os
import sys

BEFORE = {name: os.environ.get(name) for name in ("LD_PRELOAD", "MSTX_INJECTION_PATH")}
if "import" in sys.argv:
    import msmemscope

    msmemscope.start()

if "torch-npu-first" in sys.argv:
    import torch_npu

import mstx  # noqa: E402
import torch  # noqa: E402
import torch_npu  # noqa: E402

MARKS = mstx if sys.argv[1] == "mstx" else torch_npu.npu.mstx
STEPS = 5


def print_totals() -> None:
    """Mark what torch has allocated and reserved."""
    torch.npu.synchronize()
    MARKS.mark(f"totals {torch.npu.memory_allocated()} {torch.npu.memory_reserved()}")


def main() -> None:
    """Take the steps; something lives on from each of them."""
    torch.npu.set_device(0)
    kept = []
    for step in range(1, STEPS + 1):
        number = MARKS.range_start("step start")
        inner = MARKS.range_start(f"inner {step}")
        MARKS.range_end(inner)
        kept.append(torch.empty(step, 1000, device="npu"))
        square = torch.ones(700, 700, device="npu")
        product = square @ square
        print_totals()
        del square, product
        print_totals()
        MARKS.range_end(number)
    torch.npu.empty_cache()
    kept.append(torch.empty(10, device="npu"))
    print_totals()
    if MARKS is not mstx:
        use_all_of_torch_npu()
    kept.clear()
    assert {name: os.environ.get(name) for name in BEFORE} == BEFORE, "the environment was changed"
    print("tool", mstx.get_tool_id())


def use_all_of_torch_npu() -> None:
    """Every way in which torch_npu lets a program mark something."""
    stream = torch.npu.Stream()
    MARKS.mark("on a stream", stream)
    MARKS.mark("=1+1", domain="mine")
    MARKS.mark("")  # refused, with a warning
    MARKS.range_push("outer")
    MARKS.range_push("pushed", stream)
    MARKS.range_pop()
    MARKS.range_pop()
    MARKS.range_pop()  # one too many
    with MARKS.annotate("annotated"):
        pass

    @MARKS.mstx_range("decorated")
    def decorated() -> None:
        pass

    decorated()
    assert MARKS.mark.__name__ == "mark"


main()
