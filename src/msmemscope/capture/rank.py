"""Which rank this process has in a distributed job, as far as its environment or torch.distributed know."""

from __future__ import annotations

import os
import sys

from msmemscope import _native
from msmemscope.model.sources import RANK_FACT, is_rank

_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Of torchrun, Open MPI, other MPIs and Slurm, in the order in which they are believed."""

_noted: tuple[int, str] | None = None
"""Process and rank: a process that is forked has a rank and an event log of its own."""


def note_rank() -> None:
    """Note the rank in the event log, if there is one that was not noted yet. Workers that are forked learn it late."""
    global _noted  # noqa: PLW0603 - what this process has noted
    rank = next(filter(is_rank, (_rank_of_torch(), *(os.environ.get(name, "") for name in _VARIABLES))), "")
    if rank and (os.getpid(), rank) != _noted:
        _native.note_fact(RANK_FACT, rank)
        _noted = os.getpid(), rank


def _rank_of_torch() -> str:
    """The rank that the program gave to torch.distributed itself; empty if it did not, or has left it."""
    distributed = sys.modules.get("torch.distributed")
    try:
        is_known = distributed is not None and distributed.is_available() and distributed.is_initialized()
        return str(distributed.get_rank()) if distributed is not None and is_known else ""
    except Exception:  # noqa: BLE001 - torch is being imported, or left, or is not torch: the program's step goes on
        return ""
