"""vLLM on CUDA devices: its allocator and its worker put memory to sleep, and wake it.

The names hold in the published packages 0.11.0 and 0.23.0. The calls of verl's rollouts end here, in the process that
has the memory.
"""

from __future__ import annotations

from typing import Final

from msmemscope.capture.frameworks.targets import Framework, HookSet, HookType, ranged_functions

_SLEEP = (
    *ranged_functions("vllm.device_allocator.cumem", "CuMemAllocator", "sleep wake_up"),
    *ranged_functions("vllm.v1.worker.gpu_worker", "Worker", "sleep wake_up"),
)

VLLM: Final = Framework(
    name="vllm",
    package="vllm",
    distribution="vllm",
    hook_sets=(HookSet("vllm", "0.11+", "worker", HookType.SLEEP, _SLEEP),),
)
