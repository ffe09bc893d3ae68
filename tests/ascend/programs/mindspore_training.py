"""Train a small network in MindSpore, in PyNative mode, on the device that is named; one argument more plants a leak.

Each operator is launched by the thread that calls it, so that allocations have the line of the program. The optimizer
is written out: those of mindspore.nn are compiled, which needs the graph engine.

Prints a line of JSON: the losses, and the bytes that MindSpore says it has allocated at the end of each step.
"""

from __future__ import annotations

import json
import sys

import mindspore
import numpy as np
from mindspore import mint

DEVICE = sys.argv[1]
LEAKS = "leak" in sys.argv[2:]
if DEVICE == "Ascend":
    import msmemscope

mindspore.set_device(DEVICE)
if DEVICE == "Ascend":
    mindspore.runtime.launch_blocking()
generator = np.random.default_rng(5)


def values(*shape: int) -> np.ndarray:
    """Return random values, the same ones in every run."""
    return generator.standard_normal(shape).astype(np.float32) * 0.3


first = mindspore.Parameter(mindspore.Tensor(values(32, 64)), name="first")
second = mindspore.Parameter(mindspore.Tensor(values(64, 1)), name="second")
inputs, targets = mindspore.Tensor(values(48, 32)), mindspore.Tensor(values(48, 1))
kept = []


def loss_of(batch: mindspore.Tensor, wanted: mindspore.Tensor) -> mindspore.Tensor:
    """Return the mean squared error of two layers."""
    hidden = mint.nn.functional.relu(mint.matmul(batch, first))
    difference = mint.matmul(hidden, second) - wanted
    return mint.mean(difference * difference)


loss_and_gradients = mindspore.value_and_grad(loss_of, None, [first, second])

losses, allocated = [], []
for _ in range(6):
    loss, gradients = loss_and_gradients(inputs, targets)
    for parameter, gradient in zip((first, second), gradients, strict=True):
        parameter.set_data(parameter - gradient * 0.1)
    losses.append(float(loss.asnumpy()))
    if LEAKS:
        kept.append(inputs * 2.0)  # the leak
    if DEVICE == "Ascend":
        mindspore.runtime.synchronize()
        allocated.append(mindspore.runtime.memory_allocated())
        msmemscope.step()
print(json.dumps({"losses": losses, "allocated": allocated}))
