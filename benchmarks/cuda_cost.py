"""The cost of observing a CUDA device, a real one or the emulated one of the tests: allocations and operators.

Kernels of the emulated device do nothing. All that PyTorch itself does is real, so what is added to it is real, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import Measurement, Target, Variant

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.ascend import NotInstalledError
from tests.support.cuda import cuda_environment, cuda_python

_WORKLOADS = Path(__file__).parent / "workloads"
_MOST_ADDED_NS = 150
_OBSERVED = (sys.executable, "-m", "msmemscope", "--device=cuda", "--log-level=error", "--output={scratch}")


def _on_device() -> tuple[str, ...]:
    return ("env", *(f"{name}={value}" for name, value in cuda_environment().items()))


def _workload(name: str, *options: str) -> tuple[str, ...]:
    return (cuda_python(), str(_WORKLOADS / f"{name}.py"), "--device=cuda", *options)


def cuda_allocation_cost() -> Measurement:
    """One alloc+free pair of a CUDA tensor, 12 Python frames deep, beside the recorder that torch has built in."""
    alone, without_stacks, with_stacks = "no tool", "msmemscope, no stacks", "msmemscope, Python stacks"
    recorder = "torch's recorder, Python stacks"
    device, loop = _on_device(), _workload("allocation_loop")
    observed = (*device, *_OBSERVED, "--events=alloc,free")
    return Measurement(
        name="cuda allocation",
        unit="ns per alloc+free pair",
        reference=alone,
        variants=(
            Variant(alone, (*device, *loop)),
            Variant(recorder, (*device, *loop, "--recorder=stacks")),
            Variant(without_stacks, (*observed, "--call-stack=", "--", *loop)),
            Variant(with_stacks, (*observed, "--call-stack=python:12", "--", *loop)),
        ),
        targets={
            without_stacks: Target(
                f"at most {_MOST_ADDED_NS} ns",
                lambda medians: medians[without_stacks] - medians[alone] <= _MOST_ADDED_NS,
            ),
            with_stacks: Target(
                "at most a quarter of what the recorder adds",
                lambda medians: 4 * (medians[with_stacks] - medians[alone]) <= medians[recorder] - medians[alone],
            ),
        },
    )


def cuda_operator_cost() -> Measurement:
    """One torch.add of CUDA tensors with launch and access events: what the thread that calls it works."""
    alone, empty, ours = "no tool", "empty TorchDispatchMode", "msmemscope, launch and access"
    device, loop = _on_device(), _workload("operator_loop", "--calls=5000")
    events = ("--events=alloc,free,launch,access", "--call-stack=")
    return Measurement(
        name="cuda operator",
        unit="us of processor time per torch.add",
        reference=alone,
        variants=(
            Variant(alone, (*device, *loop)),
            Variant(empty, (*device, *loop, "--empty-mode")),
            Variant(ours, (*device, *_OBSERVED, *events, "--", *loop)),
        ),
        targets={
            ours: Target(
                "at most a third of what an empty mode adds",
                lambda medians: 3 * (medians[ours] - medians[alone]) <= medians[empty] - medians[alone],
            )
        },
    )


def _has_device() -> bool:
    try:
        return bool(cuda_python())
    except NotInstalledError:
        return False


CUDA_MEASUREMENTS: tuple[Callable[[], Measurement], ...] = (
    (cuda_allocation_cost, cuda_operator_cost) if _has_device() else ()
)
"""None where there is no torch for CUDA: `make test-cuda` installs one."""
