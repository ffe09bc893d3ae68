"""The virtual NPU: the real torch_npu on an emulated CANN runtime, on any machine.

Before ``import torch``::

    import virtual_npu

    virtual_npu.activate(devices=2, memory="32GiB")

or, without a change to the program, ``vnpu run -- python train.py``.
"""

from __future__ import annotations

from .activation import activate
from .configuration import Configuration
from .environment import environment_variables
from .errors import VirtualNpuError

__all__ = ["Configuration", "VirtualNpuError", "__version__", "activate", "environment_variables"]

__version__ = "0.2.0"
