"""torch and torch_npu are loaded while other threads load libraries too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.nightly import nightly

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe
    from tests.support.targets import Builder


@nightly
def test_imports_in_threads(target_builder: Builder, observe: Observe) -> None:
    """Nothing crashes, and the pool is observed."""
    loops = target_builder.part("loading/loops.c", "libloops.so", "-ldl")
    other = target_builder.part("loading/opens.c", "libopens.so", "-ldl")
    queue = {"TASK_QUEUE_ENABLE": "1"}
    observation = observe(["--device=npu"], "imports_in_threads.py", loops, other, variables=queue, anew=True)
    assert observation.run.report["total"] == "2000"
    assert observation.of(0, event="MALLOC", event_type="PTA")
