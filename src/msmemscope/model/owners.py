"""Owners: texts whose parts stand from the coarsest to the finest, as MindStudio Insight shows them (`PTA@ops@aten`).

Owners of the driver's memory are the vendor's software and who asked: a module of CANN, `CANN@RUNTIME`, or a library
that uses CUDA, `CUDA@libnccl.so.2`.
"""

from __future__ import annotations

from typing import Final

from msmemscope.model.devices import names_of
from msmemscope.model.labels import OPS_ATEN

SEPARATOR: Final = "@"
"""Between the parts of an owner."""
UNKNOWN_MODULE: Final = "UNKNOWN"
"""Module of the driver's memory that names none."""
PROGRAM_MODULE: Final = "APP"
"""Module of memory that the program itself asks for, its memory pools included."""
PINNED_HOST: Final = "HOST@pinned"
"""The first part of owners of pinned memory of the host."""
_MODEL: Final = "model"


def without_module(owner: str) -> str:
    """Return an owner without the name of the module that holds it, see `labels.module_label`: all weights are one."""
    parts = owner.split(SEPARATOR)
    if parts[1:2] != [_MODEL]:
        return owner
    return SEPARATOR.join(part for part in parts if not (part.startswith("(") and part.endswith(")")))


def is_known_owner(owner: str) -> bool:
    """Whether an owner says more than the pool of a block, and that operators made it."""
    _, _, behind = owner.partition(SEPARATOR)
    return behind not in {"", OPS_ATEN.partition(SEPARATOR)[0], OPS_ATEN}


def driver_owner(module: str, device: int) -> str:
    """Return the owner of memory of a device's driver."""
    return f"{names_of(device).runtime}{SEPARATOR}{module}"
