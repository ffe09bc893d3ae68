"""Signal handlers raise exceptions in the middle of operators, as time limits and Ctrl-C do: interrupted_operators.py DEVICE.

Prints how many of them arrived.
"""

from __future__ import annotations

import signal
import sys
import time

import torch

if sys.argv[1] == "npu":
    import torch_npu  # noqa: F401 - registers the device

ROUNDS = 30
LIMIT_S = 10.0


class TimeIsUpError(BaseException):
    """The exception that the handler raises; nothing in torch catches it."""


def raise_it(_number: int, _frame: object) -> None:
    """The handler."""
    raise TimeIsUpError


signal.signal(signal.SIGALRM, raise_it)
values = torch.ones(64, device=sys.argv[1])
arrived = 0
for turn in range(ROUNDS):
    end = time.monotonic() + LIMIT_S
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.0001 * turn)
        while time.monotonic() < end:
            values = (values * 2).clamp(max=4.0)
    except TimeIsUpError:
        arrived += 1
print(f"arrived={arrived} of={ROUNDS} sum={values.sum().item()}")
